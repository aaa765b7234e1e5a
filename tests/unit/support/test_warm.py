"""A forked command ends, prints and dies like one of its own interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import psutil
import pytest

from tests.support import warm
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.processes import environment, run

pytestmark = pytest.mark.slow


def ended(script, *arguments, **variables):
    """Return the exit code and the output of a script."""
    with TemporaryFile() as output, Path(os.devnull).open() as nothing:
        process = warm.spawn(
            ["-c", script, *arguments],
            environment(extra=variables),
            stdin=nothing.fileno(),
            stdout=output.fileno(),
            stderr=output.fileno(),
        )
        code = process.wait(HAPPEN_S)
        output.seek(0)
        return code, output.read().decode()


def really(script, *arguments, **variables):
    """Return the same of an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment(extra=variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "script",
    [
        "import sys, os; print(sys.argv, __name__, os.environ['SOME'], os.getcwd())",
        "raise SystemExit(7)",
        "raise SystemExit('said on standard error')",
        "import atexit, threading; atexit.register(print, 'at exit'); threading.Thread(target=print, args=['thread']).start()",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGCHLD))",
        "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3])",
    ],
)
def test_a_script_ends_as_in_an_interpreter_of_its_own(script):
    assert ended(script, "one", SOME="thing") == really(script, "one", SOME="thing")


def test_an_error_is_printed_and_is_exit_code_1():
    code, output = ended("1 / 0")
    assert code == 1
    assert output.endswith("ZeroDivisionError: division by zero\n")


def test_two_processes_draw_different_random_numbers():
    script = "import random, uuid; print(random.random(), uuid.uuid4())"
    assert ended(script)[1] != ended(script)[1]


def test_a_command_gets_standard_input_and_its_exit_code_is_returned():
    assert run("version").returncode == 0
    wrong = run("no-such-command")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "There is no command no-such-command" in wrong.stderr


def test_a_killed_process_has_ended_for_its_test():
    with Path(os.devnull).open() as nothing:
        process = warm.spawn(
            ["-c", "import time; time.sleep(60)"], environment(), stdin=nothing.fileno(), stdout=1, stderr=2
        )
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.kill()
    assert process.wait(ANSWER_S) == -9
    assert not psutil.pid_exists(process.pid)


def test_a_process_whose_variables_concern_its_interpreter_is_not_forked():
    assert warm.can_fork(environment(extra={"SWITCHGEAR_LOCAL": "true"}))
    assert not warm.can_fork(environment(extra={"PYTHONWARNINGS": "error"}))
    assert not warm.can_fork(environment(extra={"LC_ALL": "C"}))
