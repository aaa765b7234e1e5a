"""Readers' processes over one folder of the embedded engine: one for each reader, and a spare one that is ready.

A process serves one reader and is then ended, whatever state it is in: nothing of one query reaches the next. To load the
engine and to open the tables takes half a second or more; the spare one has done both, and only looks at the tables again when
it is taken. It comes with the first query and ends when no query comes for a while.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import structlog

from switchgear_schemas.errors import StoreUnavailableError, SwitchgearError
from switchgear_sinks.clickhouse_errors import clickhouse_message
from switchgear_sinks.sandbox.client import ReaderClient
from switchgear_sinks.sandbox.process import START_S, ReaderLimits, ReaderProcess
from switchgear_sinks.sandbox.snapshot import link_snapshot

log = structlog.get_logger()

SCRATCH: Final = "readers"
"""Below the engine's folder, whose lock says that no other process uses it."""
IDLE_S: Final = 120.0
_GRACE_S: Final = 1.0
_RUN: Final = uuid4().hex[:8]  # scratch folders of another run have no process any more
_REFRESH_S: Final = 10.0


class ReaderOpenError(StoreUnavailableError):
    """The process could not open the tables."""


class Readers:
    """Make with the folder of an open store; close before the store gives its lock back. Usable from any thread."""

    def __init__(
        self,
        folder: Path,
        database: str,
        *,
        max_seconds: float,
        walled: bool = True,
        limits: ReaderLimits | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        """Start nothing yet; remove what processes of an earlier run left behind.

        Args:
            folder: Of the engine, which this process has open.
            database: The one to select.
            max_seconds: For all that one client asks; a second later its process is ended.
            walled: Behind the kernel's walls; False: a process of its own only.
            limits: Of one process.
            idle_s: The spare process ends when it was not used for so long.
        """
        self._folder = folder
        self._database = database
        self._seconds = max_seconds + _GRACE_S
        self._walled = walled
        self._limits = limits or ReaderLimits()
        self._idle_s = idle_s
        self._guard = threading.Lock()
        self._running: set[ReaderProcess] = set()
        self._spare: ReaderProcess | None = None
        self._preparing: threading.Thread | None = None
        self._idle: threading.Timer | None = None
        self._closed = False
        for left in (folder / SCRATCH).glob("*"):
            if not left.name.startswith(_RUN):
                shutil.rmtree(left, ignore_errors=True)

    def connect(self) -> ReaderClient:
        """A client of its own, whose time runs from now on. Blocks; close it.

        Raises:
            StoreUnavailableError: no process can be started, or the service is closing.
        """
        process = self._ready()
        return ReaderClient(process, time.monotonic() + self._seconds, self._release)

    def close(self) -> None:
        """End every process, also of queries that run."""
        with self._guard:
            self._closed = True
            running, preparing = list(self._running), self._preparing
            if self._idle is not None:
                self._idle.cancel()
        for process in running:
            process.end()
        if preparing is not None:
            preparing.join()
        self._drop_spare()

    def _ready(self) -> ReaderProcess:
        with self._guard:
            spare, self._spare = self._spare, None
        if spare is not None:
            try:
                self._refresh(spare)
            except (SwitchgearError, OSError) as error:
                _report("the spare process for SQL was of no use", error)
                self._release(spare)
            else:
                return spare
        return self._start(background=False)

    def _start(self, *, background: bool) -> ReaderProcess:
        """A process of which a client can be made.

        A part of a table that is dropped between the snapshot and its opening keeps the engine from opening it: then once more.
        """
        try:
            return self._open(background=background)
        except ReaderOpenError:
            return self._open(background=background)

    def _open(self, *, background: bool) -> ReaderProcess:
        """Load the engine in a new process, and open the tables as they are now."""
        with self._guard:
            if self._closed:
                raise StoreUnavailableError("The service is closing.", hint="Ask again when it runs.")
            try:
                process = ReaderProcess(
                    self._folder,
                    self._folder / SCRATCH / f"{_RUN}-{uuid4().hex[:12]}",
                    self._limits,
                    walled=self._walled,
                    background=background,
                )
            except OSError as error:
                raise _unavailable(error) from error
            self._running.add(process)
        deadline = time.monotonic() + START_S
        with self._released_on_error(process):
            process.started(deadline)
            link_snapshot(self._folder, process.engine)
            _done(process.ask({"open": str(process.engine)}, deadline))
            self._settle(process, deadline)
        return process

    def _refresh(self, process: ReaderProcess) -> None:
        """Close the database, which still shows what was stored when the process started, and open it as it is now."""
        deadline = time.monotonic() + _REFRESH_S
        _tell(process, f"DETACH DATABASE `{self._database}`", deadline)
        link_snapshot(self._folder, process.engine)
        definition = (self._folder / "metadata" / f"{self._database}.sql").read_text()
        _tell(process, definition.replace("ATTACH DATABASE _", f"ATTACH DATABASE `{self._database}`", 1), deadline)
        self._settle(process, deadline)

    def _settle(self, process: ReaderProcess, deadline: float) -> None:
        _tell(process, "SYSTEM STOP MERGES", deadline)
        _tell(process, f"USE `{self._database}`", deadline)
        process.step_back()

    def _release(self, process: ReaderProcess) -> None:
        """End a process that was used, and see that there is a spare one for the next query."""
        process.close()
        with self._guard:
            self._running.discard(process)
            if self._closed or self._spare is not None or self._preparing is not None:
                return
            self._preparing = threading.Thread(target=self._prepare, name="sql-spare", daemon=True)
            self._preparing.start()

    def _prepare(self) -> None:
        process: ReaderProcess | None = None
        try:
            process = self._start(background=True)
        except (SwitchgearError, OSError) as error:
            if not self._closed:
                _report("no spare process for SQL could be started", error)
        with self._guard:
            self._preparing = None
            self._spare = process
            if process is None or self._closed:
                return
            if self._idle is not None:
                self._idle.cancel()
            self._idle = threading.Timer(self._idle_s, self._drop_spare)
            self._idle.daemon = True
            self._idle.start()

    def _drop_spare(self) -> None:
        with self._guard:
            spare, self._spare = self._spare, None
            if spare is not None:
                self._running.discard(spare)
        if spare is not None:
            spare.close()

    @contextlib.contextmanager
    def _released_on_error(self, process: ReaderProcess) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            process.close()
            with self._guard:
                self._running.discard(process)
            if isinstance(error, OSError):
                raise _unavailable(error) from error
            raise


def _tell(process: ReaderProcess, statement: str, deadline: float) -> None:
    _done(process.ask({"query": statement, "format": "Null", "parameters": {}, "settings": {}}, deadline))


def _done(answer: tuple[bool, bytes]) -> None:
    ok, text = answer
    if not ok:
        reason = clickhouse_message(RuntimeError(text.decode(errors="replace")))
        raise ReaderOpenError(f"The process for SQL could not open the tables: {reason}", hint="Try again.")


def _report(event: str, error: Exception) -> None:
    if not isinstance(
        error, ReaderOpenError
    ):  # else a table changed just then; a query that meets it again is an error
        log.warning(event, error=str(error))


def _unavailable(error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"No process for SQL can be started: {error.strerror or error}.",
        hint="Free memory or space on the disk of the store; everything else goes on.",
    )
