"""The child processes of integration tests end with the test run, however it ends."""

import subprocess
import sys
import threading

import psutil
import pytest

from tests.support.limits import STOP_S
from tests.support.processes import Child, environment, python

pytestmark = pytest.mark.slow

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"


def test_a_child_is_ended_when_its_block_ends(tmp_path):
    with python(SLEEPS, log=tmp_path / "log") as child:
        child.wait_for_output("up")
        assert child.alive
    assert not child.alive


def test_a_child_that_ends_too_early_fails_the_test_with_what_it_said(tmp_path):
    with (
        python("raise SystemExit('no disk')", log=tmp_path / "log") as child,
        pytest.raises(AssertionError, match=r"(?s)ended with 1 before .*no disk"),
    ):
        child.wait_for_output("up")


def test_a_child_that_is_never_ready_fails_the_test(tmp_path):
    with python(SLEEPS, log=tmp_path / "log") as child, pytest.raises(AssertionError, match="was not printing 'x'"):
        child.wait_for_output("x", timeout_s=0.3)


def test_a_child_is_killed_as_a_crash_would(tmp_path):
    with python(SLEEPS, log=tmp_path / "log") as child:
        child.wait_for_output("up").kill9()
        assert child.process.returncode == -9


def test_a_child_that_ignores_sigterm_fails_the_test_with_its_stacks_and_is_gone_with_its_own_child(tmp_path):
    script = f"import os, signal; signal.signal(15, signal.SIG_IGN); pid = os.fork(); print('pid', pid, flush=True)\n{SLEEPS}"
    with python(script, log=tmp_path / "log") as child:
        child.wait_until(lambda: child.output().count("up") == 2)
        with pytest.raises(AssertionError, match=r"(?s)did not end within.*(File.*in <module>.*){2}"):
            child.terminate(timeout_s=0.3)
        assert not child.alive
    (grandchild,) = [
        int(line.removeprefix("pid "))
        for line in child.output().splitlines()
        if line.startswith("pid ") and line != "pid 0"
    ]
    gone = not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE
    assert gone, "a zombie is gone for all but its new parent"


def test_kill_9_of_the_test_run_leaves_no_child(tmp_path):
    script = (
        "import pathlib, sys, time\n"
        "from tests.support.processes import python\n"
        f"child = python({SLEEPS!r}, log=pathlib.Path(sys.argv[1]))\n"
        "child.wait_for_output('up'); print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "log")], stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    gone, alive = psutil.wait_procs([child], timeout=STOP_S)
    assert gone or alive[0].status() == psutil.STATUS_ZOMBIE


def test_a_child_of_a_thread_outlives_the_thread(tmp_path):
    made = []
    thread = threading.Thread(
        target=lambda: made.append(Child([sys.executable, "-c", SLEEPS], tmp_path / "log", environment()))
    )
    thread.start()
    thread.join()
    with made[0] as child:
        child.wait_for_output("up")
        assert child.alive
