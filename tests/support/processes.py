"""Child processes of tests, such as ``switchgear …``, forked from a warm interpreter. They are always ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

import psutil
from pydantic import SecretStr

from switchgear_cli.local.die_with_parent import die_with_parent
from switchgear_schemas.settings import Settings
from tests.support import warm
from tests.support.limits import READY_S, STOP_S


class Child:
    """A running command. Use it as a context manager: leaving ends the command.

    Attributes:
        log: The file with everything it printed, standard error included.
        process: The ``Popen``, or a process of :mod:`tests.support.warm`, which has the same methods.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        environment: Mapping[str, str],
        folder: Path | None = None,
        *,
        forked: Sequence[str] | None = None,
    ) -> None:
        self.log = log
        self.command = command
        self.process: subprocess.Popen[bytes] | warm.Forked
        with log.open("ab") as output:
            if forked is not None and warm.can_fork(environment):
                with Path(os.devnull).open("rb") as nothing:
                    self.process = warm.spawn(
                        forked,
                        environment,
                        stdin=nothing.fileno(),
                        stdout=output.fileno(),
                        stderr=output.fileno(),
                        folder=folder,
                    )
                return
            # It dies with the test run, even one that is killed; but in a thread it would die with the thread.
            run_as = die_with_parent(command) if threading.current_thread() is threading.main_thread() else command
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
            self._abort()
            raise AssertionError(
                f"{self.command} did not end within {timeout_s} s of {number.name}:\n{self.output()}"
            ) from None

    def _abort(self) -> None:
        """End it and its children. An interpreter with PYTHONFAULTHANDLER says where each of its threads was."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
            for each in reversed(family):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(signal.SIGABRT)
                    psutil.wait_procs([each], timeout=2)
                    each.kill()
        self.process.kill()
        self.process.wait()

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
    return found | {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "NO_COLOR": "1"} | dict(extra or {})


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
    """Start ``switchgear ARGUMENTS`` with its output in ``log``."""
    command = [sys.executable, "-m", "switchgear_cli", *arguments]
    return Child(command, log, environment(settings, extra), forked=arguments)


def python(
    script: str, *arguments: str, log: Path, extra: Mapping[str, str] | None = None, forked: bool = True
) -> Child:
    """Start ``python -c SCRIPT ARGUMENTS``. Where its start or its end is the subject, don't let it be forked."""
    command = ["-c", script, *arguments]
    return Child([sys.executable, *command], log, environment(extra=extra), forked=command if forked else None)


def run(
    *arguments: str,
    settings: Settings | None = None,
    extra: Mapping[str, str] | None = None,
    timeout_s: float = READY_S,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run ``switchgear ARGUMENTS`` to its end, with standard output and error as text.

    Raises:
        subprocess.TimeoutExpired: It was ended, because it took longer than ``timeout_s``.
    """
    variables = environment(settings, extra)
    if not warm.can_fork(variables):
        return subprocess.run(
            [sys.executable, "-m", "switchgear_cli", *arguments],
            capture_output=True,
            text=True,
            env=variables,
            timeout=timeout_s,
            input=stdin,
            check=False,
        )
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin.encode())
        given.seek(0)
        process = warm.spawn(arguments, variables, stdin=given.fileno(), stdout=output.fileno(), stderr=errors.fileno())
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(list(arguments), code, *texts)


@contextmanager
def all_ended(*children: Child) -> Iterator[None]:
    """End all children, even if the test fails."""
    try:
        yield
    finally:
        for child in children:
            child.__exit__()
