"""The SQLite database that holds the events of one process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from switchgear.emitter.record_batch import RecordBatch

SUFFIX: Final = ".db"
_PAGE_BYTES: Final = 4_096
_LOG_PAGES: Final = 512
LOG_BYTES: Final = 7 * 1_048_576
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
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, value BLOB NOT NULL, sent INTEGER NOT NULL);
"""


class Database:
    """A file that one process holds locked. The lock ends with the process.

    Its numbers can be read from any thread. Call the methods from one thread at a time.

    Args:
        path: The file.
        fsync: Wait for the disk after each write.
        create: Make the file, readable by its user only.

    Raises:
        sqlite3.Error: Another process holds the file (see :func:`is_locked`), it is damaged, or the disk fails.
        OSError: The file can't be made.
    """

    def __init__(self, path: Path, *, fsync: bool, create: bool = False) -> None:
        self.path = path
        if create:  # SQLite would make it readable by all
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0, check_same_thread=False)
        try:
            self._connection.executescript(_SETTINGS + _TABLES)  # an empty file needs no fsync, which can take seconds
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
            self.rows: int
            self.rows, self._last_id = self._connection.execute(
                "SELECT count(*), coalesce(max(id), 0) FROM events"
            ).fetchone()
            (self._handed_over,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._measure()
        except BaseException:
            self._connection.close()
            if create:  # it is tried again, so nothing may stay behind
                self._remove()
            raise
        self.unread = self.rows
        """Rows that :meth:`read` has not returned."""
        self.in_flight: set[int] = set()
        """Ids that were read and not deleted."""
        self._read_to = 0

    def append(self, records: Sequence[RecordBatch], *, in_flight: bool = False) -> range:
        """Write batches of one at the end, all or none, and return their ids.

        If ``in_flight``, they are on their way to Kafka too. :meth:`read` leaves them out, and they count as resent.
        """
        first = self._last_id + 1
        ids = range(first, first + len(records))
        with self._connection:
            self._connection.executemany(
                "INSERT INTO events VALUES (?, ?, ?, ?)",
                (
                    (number, each.tool, each.value, in_flight or each.resent)
                    for number, each in zip(ids, records, strict=True)
                ),
            )
        self._last_id = ids[-1]
        self.rows += len(ids)
        if in_flight:
            self._read_to = self._last_id
            self.in_flight.update(ids)
        else:
            self.unread += len(ids)
        self._measure()
        return ids

    def read(self, most: int) -> list[tuple[int, RecordBatch]]:
        """Return up to ``most`` of the oldest unread events, each with its id."""
        found = [
            (number, RecordBatch(tool, [value], resent=bool(sent) or number <= self._handed_over))
            for number, tool, value, sent in self._connection.execute(
                "SELECT id, tool, value, sent FROM events WHERE id > ? ORDER BY id LIMIT ?", (self._read_to, most)
            )
        ]
        if found:
            self._read_to = found[-1][0]
            self.in_flight.update(number for number, _ in found)
        self.unread = max(0, self.unread - len(found)) if len(found) == most else 0
        return found

    def note_handed_over(self) -> None:
        """Write down that Kafka may have all that was read. After a crash those events are marked as sent."""
        if self._read_to > self._handed_over:
            self._connection.execute(f"PRAGMA user_version = {self._read_to}")
            self._handed_over = self._read_to

    def delete(self, ids: Iterable[int]) -> None:
        """Delete events that Kafka has answered for."""
        ids = self.in_flight.intersection(ids)
        with self._connection:
            cursor = self._connection.executemany("DELETE FROM events WHERE id = ?", ((number,) for number in ids))
        self.in_flight -= ids
        self.rows -= cursor.rowcount
        self._measure()

    def drop_oldest(self, size: int) -> int:
        """Delete the oldest events, at least ``size`` bytes of them if there are as many.

        Returns:
            How many of them were unread. The others are on their way to Kafka.
        """
        dropped = freed = unread = 0
        last = 0
        rows = self._connection.execute("SELECT id, length(tool) + length(value) FROM events ORDER BY id")
        with contextlib.closing(rows):
            for last, length in rows:
                dropped += 1
                unread += last > self._read_to
                freed += length
                if freed >= size:
                    break
        with self._connection:
            self._connection.execute("DELETE FROM events WHERE id <= ?", (last,))
        self.rows -= dropped
        self.unread -= unread
        self._measure()
        return unread

    def go_back(self) -> None:
        """Read everything again: what is in flight will get no answer."""
        self.in_flight.clear()
        self._read_to = 0
        self.unread = self.rows

    def close(self) -> None:
        """Close the file, and delete it if it holds no event."""
        with contextlib.suppress(sqlite3.Error):
            if not self.rows:
                self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.close()
        if not self.rows:
            self._remove()

    def set_aside(self) -> Path:
        """Close a damaged file and rename it, so that no process reads it again. Return its new path."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        return set_aside(self.path)

    def abandon(self) -> None:
        """Forget the connection in a forked child, without closing it.

        Closing would end the write-ahead log of the parent, so the extra reference keeps it open until the process ends:
        https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()

    def _measure(self) -> None:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        self.bytes = pages * _PAGE_BYTES if self.rows else 0


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that no process reads it again. Return its new path."""
    aside = path.with_suffix(".damaged")
    with contextlib.suppress(OSError):
        path.rename(aside)
    with contextlib.suppress(OSError):
        Path(f"{path}-wal").unlink()
    return aside


def is_locked(error: BaseException) -> bool:
    """Return whether another process holds the database."""
    return _code(error) == sqlite3.SQLITE_BUSY


def is_damage(error: BaseException, *, reading: bool = False) -> bool:
    """Return whether the file can't be used any more. When reading, an input/output error means that too."""
    return _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or (
        reading and _code(error) == sqlite3.SQLITE_IOERR
    )


def _code(error: BaseException) -> int:
    """Return SQLite's primary result code, which is the lower byte of the extended one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
