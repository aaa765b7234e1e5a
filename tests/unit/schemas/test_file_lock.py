"""One process at a time; a dead holder holds nothing."""

import os
import subprocess
import sys
import time

import pytest

from switchgear_schemas.file_lock import FileLock
from tests.support.limits import ANSWER_S, HAPPEN_S


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deeper" / "a.lock"


def test_a_second_taker_of_a_lock_is_refused_until_the_first_releases_it(path):
    first, second = FileLock(path), FileLock(path)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_the_holder_of_a_lock_is_named_by_its_process_id(path):
    with FileLock(path):
        assert FileLock(path).holder() == os.getpid()


def test_a_lock_that_was_never_taken_has_no_holder(path):
    assert FileLock(path).holder() is None
    assert not FileLock(path).is_held()


def test_a_held_lock_is_seen_as_held_and_a_released_one_is_not(path):
    with FileLock(path):
        assert FileLock(path).is_held()
    assert not FileLock(path).is_held()


def test_a_wait_for_the_lock_ends_at_its_limit(path):
    with FileLock(path):
        began = time.monotonic()
        assert not FileLock(path).acquire(0.02)
        assert 0.02 <= time.monotonic() - began < 10


def test_taking_a_held_lock_as_a_context_manager_names_its_holder(path):
    with FileLock(path), pytest.raises(BlockingIOError, match=f"held by process {os.getpid()}"), FileLock(path):
        pass


def test_one_object_cannot_take_a_lock_twice(path):
    with FileLock(path) as lock, pytest.raises(RuntimeError, match="already held"):
        lock.acquire()


@pytest.mark.slow
def test_the_kernel_frees_the_lock_of_a_killed_process(path):
    script = (
        "import sys, time, pathlib\n"
        "from switchgear_schemas.file_lock import FileLock\n"
        "assert FileLock(pathlib.Path(sys.argv[1])).acquire()\n"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"held\n"
        assert FileLock(path).holder() == child.pid
        assert not FileLock(path).acquire()
        child.kill()
    assert FileLock(path).acquire(ANSWER_S)


def test_a_child_that_inherits_the_lock_holds_it_after_its_parent_released_it(path):
    lock = FileLock(path)
    assert lock.acquire()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.fileno(),)) as child:
        lock.release()
        assert FileLock(path).is_held()
        child.stdin.close()
        child.wait(HAPPEN_S)
        assert not FileLock(path).is_held()


def test_a_lock_that_is_not_held_has_no_file_descriptor(path):
    with pytest.raises(RuntimeError, match="is not held"):
        FileLock(path).fileno()
