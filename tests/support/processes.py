"""Child processes of tests, such as ``python -m switchgear_cli …``. They are always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pydantic import SecretStr

from switchgear_cli.local.die_with_parent import die_with_parent
from switchgear_schemas.settings import Settings

READY_S = 60.0
STOP_S = 20.0


class Child:
    """A running command. Use it as a context manager: leaving ends the command.

    Attributes:
        log: The file with everything it printed, standard error included.
        process: The ``Popen``.
    """

    def __init__(
        self, command: list[str], log: Path, environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self.log = log
        self.command = command
        # It dies with the test run, even one that is killed; but in a thread it would die with the thread.
        run_as = die_with_parent(command) if threading.current_thread() is threading.main_thread() else command
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                run_as,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], bool], what: str = "ready", timeout_s: float = READY_S) -> Self:
        """Wait until ``ready`` is true. Fail with the log if the child ends first or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.alive:
                raise AssertionError(
                    f"{self.command} ended with {self.process.returncode} before {what}:\n{self.output()}"
                )
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.command} was not {what} after {timeout_s} s:\n{self.output()}")
            time.sleep(0.05)
        return self

    def wait_for_output(self, text: str, timeout_s: float = READY_S) -> Self:
        """Wait until the command has printed ``text``."""
        return self.wait_until(lambda: text in self.output(), f"printing {text!r}", timeout_s)

    def wait_for_exit(self, timeout_s: float = STOP_S) -> int:
        """Wait until the command ends, and return its exit code."""
        return self.process.wait(timeout_s)

    def interrupt(self, timeout_s: float = STOP_S) -> int:
        """Send SIGINT, as Ctrl-C does, and return the exit code."""
        return self._signal(signal.SIGINT, timeout_s)

    def terminate(self, timeout_s: float = STOP_S) -> int:
        """Send SIGTERM, and return the exit code. Fail if the command does not end in time."""
        return self._signal(signal.SIGTERM, timeout_s)

    def kill9(self) -> None:
        """Send SIGKILL, as a crash does."""
        self._signal(signal.SIGKILL, STOP_S)

    def _signal(self, number: signal.Signals, timeout_s: float) -> int:
        if self.alive:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"{self.command} did not end within {timeout_s} s of {number.name}:\n{self.output()}"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def environment(settings: Settings | None = None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, with ``settings`` instead of its own SWITCHGEAR_* variables."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHGEAR_")}
    if settings is not None:
        found |= settings_environment(settings)
    return found | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"} | dict(extra or {})


def settings_environment(settings: Settings) -> dict[str, str]:
    """Return the explicit values of ``settings`` as SWITCHGEAR_* variables."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    return {
        f"SWITCHGEAR_{name.upper()}": value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in given.items()
        if value is not None
    }


def switchgear(
    *arguments: str, log: Path, settings: Settings | None = None, extra: Mapping[str, str] | None = None
) -> Child:
    """Start ``python -m switchgear_cli ARGUMENTS`` with its output in ``log``."""
    return Child([sys.executable, "-m", "switchgear_cli", *arguments], log, environment(settings, extra))


def python(script: str, *arguments: str, log: Path, extra: Mapping[str, str] | None = None) -> Child:
    """Start ``python -c SCRIPT ARGUMENTS``."""
    return Child([sys.executable, "-c", script, *arguments], log, environment(extra=extra))


def run(
    *arguments: str, settings: Settings | None = None, extra: Mapping[str, str] | None = None, timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m switchgear_cli ARGUMENTS`` to its end, with standard output and error as text."""
    return subprocess.run(
        [sys.executable, "-m", "switchgear_cli", *arguments],
        capture_output=True,
        text=True,
        env=environment(settings, extra),
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def all_ended(*children: Child) -> Iterator[None]:
    """End all children, even if the test fails."""
    try:
        yield
    finally:
        for child in children:
            child.__exit__()
