"""One run of pytest in a checkout, and what it says about a mutation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTEST_ADDOPTS", "VIRTUAL_ENV"}
_STOP_S: Final = 30.0
"""How long pytest may take to end its servers after an interruption."""
_NOT_IMPORTED: Final = re.compile(r"^ERROR (\S+\.py)(?: - .*)?$|^ImportError while loading conftest", re.MULTILINE)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_SURVIVED, _FAILURES, _NO_TESTS = 0, 1, 5  # exit codes of pytest


class Outcome(StrEnum):
    """What became of a mutation."""

    KILLED = "killed"
    IMPORT_ERROR = "import error"
    """Killed, but only because some module could not be imported: the mutation should be a better one."""
    SURVIVED = "survived"
    TIMED_OUT = "timed out"
    """The time was over. It doesn't count as killed: give it more, or look at it."""
    ERROR = "error"
    """Pytest itself failed."""

    @property
    def is_kill(self) -> bool:
        """Whether a test noticed it."""
        return self in {Outcome.KILLED, Outcome.IMPORT_ERROR}


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended. Without an exit code, its time was over."""

    code: int | None
    seconds: float
    output: str

    @property
    def had_tests(self) -> bool:
        """Whether a test was selected."""
        return self.code != _NO_TESTS

    def verdict(self) -> tuple[Outcome, str]:
        """Return the outcome, and the test that noticed the mutation or what went wrong."""
        if self.code is None:
            return Outcome.TIMED_OUT, ""
        if self.code in {_SURVIVED, _NO_TESTS}:
            return Outcome.SURVIVED, ""
        if (broken := _NOT_IMPORTED.search(self.output)) is not None:
            return Outcome.IMPORT_ERROR, broken[1] or "a conftest.py"
        failed = _FAILED.search(self.output)
        if self.code == _FAILURES and failed is not None:
            return Outcome.KILLED, failed[1]
        lines = [line for line in self.output.splitlines() if line.strip()] or ["it said nothing"]
        return Outcome.ERROR, f"pytest ended with {self.code}: {lines[-1][:200]}"


def run_pytest(checkout: Path, arguments: list[str], limit_s: float) -> Run:
    """Run pytest with the checkout's own interpreter, at most ``limit_s`` seconds."""
    command = [str(interpreter(checkout)), "-m", "pytest", *arguments]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(limit_s)
        finally:
            _end(process)
        output.seek(0)
        return Run(code, time.monotonic() - started, output.read().decode(errors="replace"))


def interpreter(checkout: Path) -> Path:
    """Return the Python of the checkout's virtual environment."""
    return checkout / ".venv" / "bin" / "python"


def _environment(folder: str) -> dict[str, str]:
    """Return the environment. Examples that hypothesis found for one mutation must not help with the next one."""
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return kept | {"HYPOTHESIS_STORAGE_DIRECTORY": folder}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pytest and what it has started in its group: first as Ctrl-C does, so that it ends its servers."""
    if process.poll() is None:
        _signal(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
