"""A `switchgear up` for a test, with its own folder. Several may start at the same time: each finds ports of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psutil

from switchgear_cli.local.ports import hold_port, hold_reserved, port_of
from tests.support.kafka import copy_formatted
from tests.support.limits import READY_S
from tests.support.processes import run, switchgear

_FIRST_API_PORT = 18620


class Up:
    """A system that is ready when the ``with`` block begins.

    Args:
        folder: Its data folder.
        flags: More flags of ``switchgear up``.
        extra: More variables of its environment, which its commands have too.
        default_api: Serve the API at its default port, where a command of another test that names no system would find it.
        first_start: Make everything that a first start makes. Otherwise the broker's data are a copy, made once a run.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        extra: Mapping[str, str] | None = None,
        default_api: bool = False,
        first_start: bool = False,
    ) -> None:
        self.folder = folder
        self._flags = flags
        self._extra = dict(extra or {})
        self._default_api = default_api
        self._first_start = first_start

    def __enter__(self) -> Self:
        if not self._first_start:
            copy_formatted(self.folder / "kafka")
        with ExitStack() as stack:
            command = ["up", "--data-dir", str(self.folder), *self._flags]
            if not self._default_api:
                # The reservation keeps the other test processes away until this system listens on the port.
                reserved = stack.enter_context(hold_port(None, _FIRST_API_PORT, flag="--api-port", hold=hold_reserved))
                command += ["--api-port", str(port_of(reserved))]
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
