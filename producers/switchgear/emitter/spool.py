"""The spool: a bounded queue of events on disk, which outlives its process.

Each process has a SQLite database, and holds it locked until it ends. A row has many events, because rows of one are slow to write.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import sqlite3
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from switchgear.emitter.record_batch import STOPPED, RecordBatch
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog

log: Final = logging.getLogger("switchgear.spool")

SUFFIX: Final = ".db"
_ROW_EVENTS: Final = 100
_ROW_BYTES: Final = 65_536
"""A row takes this many bytes, or one event that is larger."""
_GROUP_BYTES: Final = 1_048_576
"""The same for a transaction."""
_MOST_DROPPED_BYTES: Final = 16 * 1_048_576
_PAGE_BYTES: Final = 4_096
_LOG_PAGES: Final = 512
_LOG_BYTES: Final = 7 * 1_048_576
"""The write-ahead log can have this size: ``_LOG_PAGES``, and one transaction with the largest event on top."""
# The locking mode comes first: the file stays locked from the first access on.
_SETTINGS: Final = f"""
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA synchronous = OFF;
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA auto_vacuum = FULL;
PRAGMA journal_mode = WAL;
PRAGMA wal_autocheckpoint = {_LOG_PAGES};
"""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, packed BLOB NOT NULL);
"""


@dataclass(slots=True, eq=False)
class Row:
    """A row that was read and not deleted, and its events that have no answer."""

    number: int
    records: list[RecordBatch]


@dataclass(slots=True, eq=False)
class Place:
    """Where an event lies in the spool. It is the answer of the event's record: Kafka's answer frees the place."""

    freed: deque[Place]
    row: Row | None = None

    def __call__(self, reason: str | None) -> None:
        """Note that Kafka has answered, so that the event need not be kept any longer."""
        if reason != STOPPED:
            self.freed.append(self)


class Spool:
    """Keeps the events of this process. When it is empty, it takes the file of a process that is gone as its own.

    A killed process loses nothing that was written. A power cut loses what the system had not written yet, unless ``fsync`` is set.
    The numbers can be read from any thread.

    Args:
        root: The folder. Processes can share it, each has a file of its own in it.
        limit_bytes: Most bytes on disk. When they are used up, the oldest events are dropped.
        fsync: Wait for the disk after each write.
    """

    def __init__(self, root: Path, limit_bytes: int, *, fsync: bool = False) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self._fsync = fsync
        self._start_afresh()
        call_in_child(self._reset_in_child)

    def _start_afresh(self) -> None:
        self._lock = threading.RLock()
        self._complaints = BoundedLog(log)
        self._path: Path | None = None
        self._connection: sqlite3.Connection | None = None
        self._forget_events()
        self.answered: deque[Place] = deque()
        """Places of events that can be deleted."""
        self.more = False
        """All events were sent, and a process that is gone may have left others. Call :meth:`open`."""
        self.taken_over = 0
        """Events found in the files of processes that are gone."""
        self.dropped = 0
        """Events given up: the spool was full, or a file was damaged."""
        self.damaged = 0
        """Files that could not be read."""

    def _forget_events(self) -> None:
        self._events = 0
        self.unread = 0
        """Events that :meth:`read` has not returned."""
        self.bytes = 0
        """Size on disk."""
        self._last_row = self._read_to = self._handed_over = 0
        self._in_flight: dict[int, Row] = {}

    @property
    def records(self) -> int:
        """Events on disk that Kafka has not answered for. For a moment it can be too low."""
        return max(0, self._events - len(self.answered))

    def check(self) -> None:
        """Make the folder, and check that files can be made in it.

        Raises:
            OSError: They can't.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.root))

    def open(self) -> None:
        """Make a file. If there are no events in it, take over the oldest file of a process that is gone.

        Raises:
            OSError, sqlite3.Error: The folder or the file can't be made.
        """
        with self._lock:
            self.more = False
            self._ensure()
            if self._events:
                return
            for path in sorted(self.root.glob(f"*{SUFFIX}"), key=_age):
                if path != self._path and self._take_over(path):
                    self.taken_over += self._events
                    log.warning("%d events of a process that is gone are taken over from %s", self._events, path)
                    return

    def append(self, records: Sequence[RecordBatch], *, in_flight: bool = False) -> int:
        """Write batches of one at the end, in order.

        Args:
            records: What to write.
            in_flight: They are on their way to Kafka already, and :meth:`read` leaves them out. Their answers are places, which are
                filled in. Nothing may be unread then.

        Returns:
            How many were written. Fewer than given if the disk failed in between.

        Raises:
            OSError, sqlite3.Error: Nothing was written.
        """
        written = 0
        with self._lock:
            try:
                for group in _runs(records, _GROUP_BYTES, len(records)):
                    connection = self._ensure()
                    self._make_room(connection, sum(map(_size, group)))
                    self._insert(connection, group, in_flight=in_flight)
                    written += len(group)
            except (OSError, sqlite3.Error) as error:
                if not written:
                    raise
                log.warning("%d of %d events were written to %s: %s", written, len(records), self.root, error)
        return written

    def read(self, most: int) -> list[RecordBatch]:
        """Return the oldest unread events, each with its place as the answer: whole rows, until there are ``most`` events or more.

        Before it returns, the disk knows that Kafka may have them. If that can't be written they are returned all the same: they
        could arrive twice only if the process is killed too.

        Raises:
            sqlite3.Error: The disk can't be read.
        """
        with self._lock:
            if self._path is None or self._connection is None:
                return []
            try:
                rows = self._read_rows(self._connection, most)
            except (sqlite3.Error, msgspec.DecodeError) as error:
                if not _is_damage(error):
                    raise
                self._set_aside(self._path, self._connection, error)
                return []
            for row in rows:
                self._in_flight[row.number] = row
                self._read_to = row.number
            try:
                if self._handed_over < self._read_to:
                    self._connection.execute(f"PRAGMA user_version = {self._read_to}")
                    self._handed_over = self._read_to
            except sqlite3.Error as error:
                self._complaints.warning(f"what was sent can't be written to {self._path}", error)
            found = [record for row in rows for record in row.records]
            self.unread -= len(found)
            return found

    def progress(self) -> None:
        """Delete what Kafka has answered for.

        Raises:
            sqlite3.Error: Nothing was deleted.
        """
        with self._lock:
            places = {self.answered.popleft() for _ in range(len(self.answered))}
            connection = self._connection
            if connection is None:
                return
            touched = {place.row for place in places}
            # A row that was dropped, or is in a file that was damaged, is not in flight any more.
            left = {
                row: [each for each in row.records if each.answer not in places]
                for row in self._in_flight.values()
                if row in touched
            }
            if not left:
                return
            try:
                with connection:
                    connection.executemany(
                        "DELETE FROM events WHERE id = ?", [(row.number,) for row, each in left.items() if not each]
                    )
                    connection.executemany(
                        "UPDATE events SET count = ?, packed = ? WHERE id = ?",
                        [(len(each), _packed(each, sent=True), row.number) for row, each in left.items() if each],
                    )
                for row, records in left.items():
                    self._events -= len(row.records) - len(records)
                    row.records = records
                    if not records:
                        del self._in_flight[row.number]
                self.more = self.more or not self._events
                self._measure(connection)
            except sqlite3.Error:
                self.answered.extend(places)
                raise

    def go_back(self) -> None:
        """Read again what is in flight, marked as sent: it will get no answer."""
        with self._lock:
            self.progress()
            self._in_flight.clear()
            self._read_to = 0
            self.unread = self._events

    def close(self) -> None:
        """Delete what Kafka has answered for, and leave the rest to the next process."""
        with self._lock:
            try:
                self.progress()
            finally:
                self._close_file()

    def _reset_in_child(self) -> None:
        """Forget the connection without closing it.

        Closing would end the write-ahead log of the parent, so the extra reference keeps it open until the process ends:
        https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_
        """
        if self._connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        self._start_afresh()

    def _ensure(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.root / f"{os.getpid()}-{uuid.uuid4().hex}{SUFFIX}"
        path.touch(0o600, exist_ok=False)  # SQLite would make it readable by all
        try:
            return self._use(path)
        except BaseException:
            _remove(path)  # it is tried again, so nothing may stay behind
            raise

    def _take_over(self, path: Path) -> bool:
        """Use the file of a process that is gone. Return False if it has no events or can't be used."""
        try:
            # An empty file belongs to a process that has not locked it yet; some files may be another user's.
            if path.stat().st_size and os.access(path, os.R_OK | os.W_OK):
                self._use(path)
        except (OSError, sqlite3.Error) as error:
            if _is_damage(error):
                self.damaged += 1
                log.error("%s is damaged and was renamed to %s: %s", path, _renamed(path), error)  # noqa: TRY400 - the trace adds nothing
            elif _code(error) != sqlite3.SQLITE_BUSY and not isinstance(error, FileNotFoundError):
                self._complaints.warning(f"the events that a process left in {path} can't be read", error)
        return self._path == path

    def _use(self, path: Path) -> sqlite3.Connection:
        """Open and lock a file, and use it in place of the present one. If it has no events, delete it instead."""
        connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0, check_same_thread=False)
        try:
            connection.executescript(_SETTINGS + _TABLES)  # an empty file needs no fsync, which can take seconds
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
            events, last = connection.execute(
                "SELECT coalesce(sum(count), 0), coalesce(max(id), 0) FROM events"
            ).fetchone()
            (handed_over,) = connection.execute("PRAGMA user_version").fetchone()
        except BaseException:
            connection.close()
            raise
        if self._connection is not None and not events:
            _close(connection, quick=True)
            _remove(path)
            return self._connection
        self._close_file()
        self._forget_events()
        self._path, self._connection = path, connection
        self._events = self.unread = events
        self._last_row, self._handed_over = last, handed_over
        self._measure(connection)
        return connection

    def _set_aside(self, path: Path, connection: sqlite3.Connection, damage: Exception) -> None:
        """Go on without the file, and count its unread events as dropped."""
        lost = self.unread
        _close(connection, quick=True)
        self._path = self._connection = None
        self._forget_events()  # first, so that no event is counted twice
        self.damaged += 1
        self.dropped += lost
        log.error("%d events are lost: %s is damaged (%s) and was renamed to %s", lost, path, damage, _renamed(path))

    def _close_file(self) -> None:
        """Close the file, and delete it if it holds no event."""
        if self._path is not None and self._connection is not None:
            _close(self._connection, quick=not self._events)
            if not self._events:
                _remove(self._path)

    def _measure(self, connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        self.bytes = pages * _PAGE_BYTES if self._events else 0

    def _insert(self, connection: sqlite3.Connection, records: Sequence[RecordBatch], *, in_flight: bool) -> None:
        runs = _runs(records, _ROW_BYTES, _ROW_EVENTS)
        rows = [Row(number, list(run)) for number, run in enumerate(runs, self._last_row + 1)]
        with connection:
            connection.executemany(
                "INSERT INTO events VALUES (?, ?, ?)",
                [(row.number, len(row.records), _packed(row.records, sent=in_flight)) for row in rows],
            )
        self._last_row = rows[-1].number
        self._events += len(records)
        if in_flight:
            self._read_to = self._last_row
            for row in rows:
                self._in_flight[row.number] = row
                for record in row.records:
                    assert isinstance(record.answer, Place)
                    record.answer.row = row
        else:
            self.unread += len(records)
        self._measure(connection)

    def _make_room(self, connection: sqlite3.Connection, size: int) -> None:
        """Drop the oldest events, in large steps, until ``size`` bytes have room."""
        limit = self.limit_bytes - _LOG_BYTES
        while self._events and self.bytes + size > limit:
            unread = self._drop_oldest(connection, max(size, min(_MOST_DROPPED_BYTES, self.limit_bytes // 8)))
            self.dropped += unread  # the others are on their way to Kafka
            if unread:
                log.error("%d events were dropped, the oldest: the spool of %d bytes is full", unread, self.limit_bytes)

    def _drop_oldest(self, connection: sqlite3.Connection, size: int) -> int:
        """Delete rows of at least ``size`` bytes, if there are as many. Return how many of their events were unread."""
        dropped = freed = unread = last = 0
        with contextlib.closing(connection.execute("SELECT id, count, length(packed) FROM events ORDER BY id")) as rows:
            for last, count, length in rows:
                dropped += count
                unread += count if last > self._read_to else 0
                freed += length
                if freed >= size:
                    break
        with connection:
            connection.execute("DELETE FROM events WHERE id <= ?", (last,))
        self._in_flight = {number: row for number, row in self._in_flight.items() if number > last}
        self._events -= dropped
        self.unread -= unread
        self._measure(connection)
        return unread

    def _read_rows(self, connection: sqlite3.Connection, most: int) -> list[Row]:
        rows: list[Row] = []
        found = connection.execute("SELECT id, packed FROM events WHERE id > ? ORDER BY id", (self._read_to,))
        with contextlib.closing(found):
            while most > 0 and (next_row := found.fetchone()) is not None:
                row = Row(next_row[0], [])
                for tool, value, sent in _unpack(next_row[1]):
                    resent = sent or row.number <= self._handed_over
                    row.records.append(RecordBatch(tool, [value], Place(self.answered, row), resent))
                rows.append(row)
                most -= len(row.records)
        return rows


def _close(connection: sqlite3.Connection, *, quick: bool = False) -> None:
    with contextlib.suppress(sqlite3.Error):
        if quick:  # the file is deleted next
            connection.execute("PRAGMA synchronous = OFF")
        connection.close()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            Path(f"{path}{suffix}").unlink()


def _renamed(path: Path) -> Path:
    """Rename a damaged file, so that no process reads it again. Return its new path."""
    aside = path.with_suffix(".damaged")
    with contextlib.suppress(OSError):
        path.rename(aside)
    with contextlib.suppress(OSError):
        Path(f"{path}-wal").unlink()
    return aside


def _is_damage(error: BaseException) -> bool:
    """Return whether the file can't be used any more."""
    return (
        isinstance(error, msgspec.DecodeError)
        or _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
        or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_READ
    )


def _code(error: BaseException) -> int:
    """Return SQLite's primary result code, which is the lower byte of the extended one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes, bool]]).decode


def _packed(records: Sequence[RecordBatch], *, sent: bool) -> bytes:
    """Return records as a row holds them: tool, event, and whether Kafka may have it."""
    return _pack([(each.tool, each.value, sent or each.resent) for each in records])


def _runs(records: Sequence[RecordBatch], most_bytes: int, most: int) -> Iterator[Sequence[RecordBatch]]:
    """Split records into runs of at most so many bytes and records, each with one record or more."""
    first = size = 0
    for number, record in enumerate(records):
        size += _size(record)
        if number > first and (size > most_bytes or number - first == most):
            yield records[first:number]
            first, size = number, _size(record)
    if first < len(records):
        yield records[first:]


def _size(record: RecordBatch) -> int:
    return len(record.tool) + len(record.value)


def _age(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
