"""Run readers' processes over one folder of the embedded engine: one for each reader, and a spare one.

A process serves one reader and is then ended, so nothing of one query reaches the next. To load the engine and open the tables
takes half a second or more. The spare process has done both, and only refreshes the tables when it is used. It starts with the
first query, and ends when no query arrives for a while.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import structlog
from clickhouse_connect.driver.binding import bind_query
from clickhouse_connect.driver.exceptions import DatabaseError

from switchgear_api.sandbox.process import START_S, ReaderLimits, ReaderProcess, SnapshotError
from switchgear_api.sandbox.snapshot import link_snapshot
from switchgear_schemas.errors import StoreUnavailableError, SwitchgearError
from switchgear_sinks.clickhouse_errors import clickhouse_message

log = structlog.get_logger()

SCRATCH: Final = "readers"
"""A folder in the engine's folder, whose lock ensures that no other process uses it."""
IDLE_S: Final = 120.0
_GRACE_S: Final = 1.0
_RUN: Final = uuid4().hex[:8]
"""Prefix of this run's scratch folders. Those with another prefix have no process."""
_REFRESH_S: Final = 10.0
_MOST_TRIES: Final = 4
"""To open the tables."""
_ERROR_BYTES: Final = 16_384
_SERVER_SETTINGS: Final = frozenset({"wait_end_of_query"})


class ReaderOpenError(StoreUnavailableError):
    """The process could not open the tables."""


class ReaderClient:
    """A client of one reader's process, in the shape of a clickhouse-connect client. All its queries have one deadline.

    :meth:`Readers.connect` makes it. Its methods block. Close it after use.
    """

    def __init__(self, process: ReaderProcess, deadline: float, release: Callable[[ReaderProcess], None]) -> None:
        self._process = process
        self._deadline = deadline
        self._release = release

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def raw_query(
        self,
        query: str,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        fmt: str | None = None,
    ) -> bytes:
        """Run a query and return the answer in ``fmt``.

        Args:
            query: The SQL.
            parameters: Values for ``{name:Type}``.
            settings: Settings for this query and those after it.
            fmt: A format of ClickHouse.

        Raises:
            ClickHouseError: The engine refuses, with its text.
            ReaderLimitError: The deadline has passed, or the query exceeds its limits. The client can't be used again.
            ReaderEndedError: The query made the engine crash.
            SnapshotError: The engine can't read a file of its snapshot. Connect again for another snapshot.
        """
        text, bound = bind_query(query, dict(parameters or {}), UTC)
        ok, answer = self._process.ask(
            {
                "query": text,
                "format": fmt or "TabSeparated",
                "parameters": {name.removeprefix("param_"): value for name, value in bound.items()},
                "settings": {name: value for name, value in (settings or {}).items() if name not in _SERVER_SETTINGS},
            },
            self._deadline,
        )
        if not ok:
            reason = answer[:_ERROR_BYTES].decode("utf-8", "replace")
            if (
                f"{self._process.engine}/store/" in reason
            ):  # queries name tables, only the engine itself names their files
                log.warning("a reader's snapshot could not be read", error=reason)
                raise SnapshotError("The stored rows changed during the query.", hint="Try again.")
            raise DatabaseError(reason)
        return answer

    def command(self, cmd: str) -> object:
        """Run a statement, with the errors of :meth:`raw_query`."""
        return self.raw_query(cmd)

    def close(self) -> None:
        """End the process."""
        self._release(self._process)


class Readers:
    """The processes over the folder of an open store. Close it before the store unlocks the folder. Usable from any thread."""

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
        """Remove what processes of an earlier run left behind. No process is started yet.

        Args:
            folder: The engine's folder, which this process has open.
            database: The database to select.
            max_seconds: For all queries of one client. A second later its process is ended.
            walled: Use Landlock and seccomp. Without them, readers only have a separate process.
            limits: Limits of one process.
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
        """Return a client with its own process. Its time runs from now on. It blocks; close the client after use.

        Raises:
            StoreUnavailableError: No process can be started, or the service is closing.
        """
        process = self._ready()
        return ReaderClient(process, time.monotonic() + self._seconds, self._release)

    def close(self) -> None:
        """End every process, including those of running queries."""
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
                _report("the spare process for SQL could not be used", error)
                self._release(spare)
            else:
                return spare
        return self._start(background=False)

    def _start(self, *, background: bool) -> ReaderProcess:
        """Start a process and open the tables.

        The engine can't open a table if one of its parts is dropped after the snapshot. Then try again: while many rows are stored,
        that can happen several times in a row.
        """
        for _ in range(_MOST_TRIES - 1):
            with contextlib.suppress(ReaderOpenError):
                return self._open(background=background)
        return self._open(background=background)

    def _open(self, *, background: bool) -> ReaderProcess:
        """Load the engine in a new process, and open the tables as they are now."""
        with self._guard:
            if self._closed:
                raise StoreUnavailableError("The service is closing.", hint="Try again when it runs.")
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
            _raise_unless_ok(process.ask({"open": process.connection}, deadline))
            self._settle(process, deadline)
        return process

    def _refresh(self, process: ReaderProcess) -> None:
        """Detach the database, which shows what was stored when the process started, and attach it as it is now."""
        deadline = time.monotonic() + _REFRESH_S
        _execute(process, f"DETACH DATABASE `{self._database}`", deadline)
        link_snapshot(self._folder, process.engine)
        definition = (self._folder / "metadata" / f"{self._database}.sql").read_text()
        _execute(process, definition.replace("ATTACH DATABASE _", f"ATTACH DATABASE `{self._database}`", 1), deadline)
        self._settle(process, deadline)

    def _settle(self, process: ReaderProcess, deadline: float) -> None:
        _execute(process, "SYSTEM STOP MERGES", deadline)
        _execute(process, f"USE `{self._database}`", deadline)
        process.step_back()

    def _release(self, process: ReaderProcess) -> None:
        """End a used process, and start a spare one for the next query if there is none."""
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


def _execute(process: ReaderProcess, statement: str, deadline: float) -> None:
    _raise_unless_ok(process.ask({"query": statement, "format": "Null", "parameters": {}, "settings": {}}, deadline))


def _raise_unless_ok(answer: tuple[bool, bytes]) -> None:
    ok, text = answer
    if not ok:
        reason = clickhouse_message(RuntimeError(text.decode(errors="replace")))
        raise ReaderOpenError(f"The process for SQL could not open the tables: {reason}", hint="Try again.")


def _report(event: str, error: Exception) -> None:
    if not isinstance(error, ReaderOpenError):  # a table changed just then; a query that meets it again raises it
        log.warning(event, error=str(error))


def _unavailable(error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"No process for SQL can be started: {error.strerror or error}.",
        hint="Free memory or space on the disk of the store. Everything else continues.",
    )
