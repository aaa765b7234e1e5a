"""A die_with_parent program dies with the process that started it, however that ends."""

import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from switchgear_cli.local.die_with_parent import die_with_parent
from tests.support.limits import ANSWER_S, READY_S

PARENT = """
import subprocess, sys, time
from switchgear_cli.local.die_with_parent import die_with_parent
child = subprocess.Popen(die_with_parent([sys.executable, "-c", "import time; time.sleep(120)"]), start_new_session=True)
print(child.pid, flush=True)
time.sleep(120)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")


def gone(pid, within_s=10):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_the_program_becomes_the_process_that_was_started():
    child = subprocess.Popen(
        die_with_parent([sys.executable, "-c", "print(__import__('os').getpid())"]), stdout=subprocess.PIPE
    )
    out, _ = child.communicate(timeout=ANSWER_S)
    assert int(out) == child.pid
    assert child.returncode == 0


def test_the_launcher_exits_with_the_code_of_its_program():
    assert (
        subprocess.run(
            die_with_parent([sys.executable, "-c", "raise SystemExit(7)"]), timeout=READY_S, check=False
        ).returncode
        == 7
    )


def test_kill_9_of_the_parent_leaves_no_child():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
    assert gone(child)


def test_a_program_whose_parent_is_gone_already_does_not_start(tmp_path):
    command = die_with_parent([sys.executable, "-c", f"open({str(tmp_path / 'started')!r}, 'w')"])
    command[command.index(str(os.getpid()))] = "1"  # a parent that it does not have
    assert subprocess.run(command, timeout=READY_S, check=False).returncode == 1
    assert not (tmp_path / "started").exists()


def test_a_program_that_would_die_with_its_thread_is_not_started_from_a_thread():
    raised = []

    def start():
        try:
            die_with_parent(["/bin/true"])
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert raised == ["A die_with_parent program must be started from the main thread."]
