"""A fork waits for imports and look-ups in the background, so that neither process keeps a locked lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from switchgear.runtime.background_thread import new_loop
from switchgear.runtime.fork import blocking_work, importing
from tests.support.limits import ANSWER_S, HAPPEN_S, READY_S

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.slow
def test_a_fork_waits_for_an_import_and_both_processes_can_import_afterwards():
    entered, free = threading.Event(), []

    def background():
        with importing:
            entered.set()
            time.sleep(0.2)
            free.append(1)

    thread = threading.Thread(target=background)
    thread.start()
    entered.wait(ANSWER_S)
    child = os.fork()
    if child == 0:
        done = []

        def again():
            with importing:
                done.append(1)

        other = threading.Thread(target=again)
        other.start()
        other.join(ANSWER_S)
        os._exit(0 if done and free else 1)
    thread.join(ANSWER_S)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with importing:
        assert free


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.03])
def test_a_child_that_is_forked_as_the_client_starts_can_import_what_it_needs(after_s):
    code = f"""
import os, time
from switchgear import Emitter, Event
emitter = Emitter("127.0.0.1:1", exit_timeout=0)
emitter.emit(Event("t", "success"))
time.sleep({after_s})
child = os.fork()
if child == 0:
    emitter.emit(Event("t", "success"))
    deadline = time.monotonic() + 20
    while emitter.status().last_error is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os._exit(0 if "bootstrap" in str(emitter.status().last_error) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_a_fork_waits_for_a_look_up_that_may_hold_a_lock():
    """Otherwise the lock stays locked in the child, which could not look up names."""
    loop, entered, done = new_loop(), threading.Event(), []

    def lookup():
        entered.set()
        time.sleep(0.2)
        done.append(1)

    looking = threading.Thread(target=loop.run_until_complete, args=(loop.run_in_executor(None, lookup),))
    looking.start()
    assert entered.wait(HAPPEN_S)
    child = os.fork()
    if child == 0:
        os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    looking.join(HAPPEN_S)
    loop.close()


def test_a_fork_waits_only_a_moment_for_a_look_up_that_hangs(monkeypatch):
    monkeypatch.setattr(blocking_work, "_limit_s", 0.02)
    loop, entered, free = new_loop(), threading.Event(), threading.Event()

    def lookup():
        entered.set()
        free.wait(READY_S)

    looking = threading.Thread(target=loop.run_until_complete, args=(loop.run_in_executor(None, lookup),))
    looking.start()
    assert entered.wait(HAPPEN_S)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert time.monotonic() - began < 60
    os.waitpid(child, 0)
    free.set()
    looking.join(HAPPEN_S)
    loop.close()
