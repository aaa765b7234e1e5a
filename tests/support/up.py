"""A `switchgear up` for a test, with its own folder and ports."""

from __future__ import annotations

import fcntl
import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import psutil

from switchgear_cli.local.ports import any_free_port
from tests.support.processes import run, switchgear

READY_S = 150  # two processors, shared with everything else that runs: 6 s on an idle machine
_LOCK = Path(tempfile.gettempdir()) / "switchgear-tests-up.lock"
_held = 0


@contextmanager
def default_ports() -> Iterator[None]:
    """Keep other test processes from starting a system now: `up` looks for free ports before its servers listen on them.

    A test may run several systems, so one process may hold the lock several times.
    """
    global _held  # noqa: PLW0603 - one lock a process
    with ExitStack() as stack:
        if _held == 0:
            # Not FileLock, which polls: the process with many such tests would be first again after each of them.
            fcntl.flock(stack.enter_context(_LOCK.open("w")), fcntl.LOCK_EX)
        _held += 1
        try:
            yield
        finally:
            _held -= 1


class Up:
    """A system that is ready when the ``with`` block begins.

    Args:
        folder: Its data folder.
        flags: More flags of ``switchgear up``.
        extra: More variables of its environment, which its commands have too.
    """

    def __init__(self, folder: Path, *flags: str, extra: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._flags = flags
        self._extra = dict(extra or {})

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(default_ports())
            command = ("up", "--data-dir", str(self.folder), "--api-port", str(any_free_port()), *self._flags)
            self.child = stack.enter_context(
                switchgear(*command, log=self.folder.parent / f"up-{time.monotonic_ns()}.log", extra=self._extra)
            )
            self.child.wait_for_output("export SWITCHGEAR_API_URL=", READY_S)
            self._running = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._running.close()

    def record(self) -> dict[str, Any]:
        """Return the record of the system in its data folder."""
        return dict(json.loads((self.folder / "up.json").read_text()))

    def exported(self) -> dict[str, str]:
        """Return the variables that it prints for ``export``."""
        lines = [line for line in self.child.output().splitlines() if line.startswith("export ")]
        return dict(word.split("=", 1) for line in lines for word in shlex.split(line)[1:])

    def tree(self) -> list[psutil.Process]:
        """Return all its processes, itself included."""
        own = psutil.Process(self.child.pid)
        return [own, *own.children(recursive=True)]

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command with its folder as SWITCHGEAR_DATA_DIR."""
        return run(*arguments, extra=self._extra | {"SWITCHGEAR_DATA_DIR": str(self.folder)})

    def value(self, query: str) -> Any:
        """Return the single value of a query of its store."""
        done = self.ask("sql", "--json", query)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["rows"][0][0]

    def count(self) -> Any:
        """Return the number of stored executions."""
        return self.value("SELECT count() FROM tool_metrics")
