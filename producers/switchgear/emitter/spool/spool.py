"""The spool: a bounded queue of events on disk, which outlives its process."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from switchgear.emitter.record_batch import STOPPED, RecordBatch
from switchgear.emitter.spool.database import LOG_BYTES, SUFFIX, Database, is_damage, is_locked, set_aside
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog

log: Final = logging.getLogger("switchgear.spool")

_GROUP_BYTES: Final = 1_048_576
"""One transaction takes this many bytes, or one event that is larger."""
_MOST_DROPPED_BYTES: Final = 16 * 1_048_576


class Place:
    """Where an event lies in the spool. It is the answer of the event's record: Kafka's answer frees the place."""

    __slots__ = ("_freed", "database", "number")

    def __init__(self, freed: deque[Place], database: Database | None = None, number: int = 0) -> None:
        self._freed = freed
        self.database = database
        self.number = number

    def __call__(self, reason: str | None) -> None:
        """Note that Kafka has answered, so that the event need not be kept any longer."""
        if reason != STOPPED:
            self._freed.append(self)


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
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._complaints = BoundedLog(log)
        self.answered: deque[Place] = deque()
        """Places of events that can be deleted."""
        self.more = False
        """All events were sent, and a process that is gone may have left others. Call :meth:`open`."""
        self.taken_over = 0
        """Events found in the files of processes that are gone."""
        self.dropped = 0
        """Events given up: the spool was full, or a file was deleted or damaged."""
        self.damaged = 0
        """Files that could not be read."""

    @property
    def records(self) -> int:
        """Events on disk that Kafka has not answered for. For a moment it can be too low, never too high."""
        database = self._database
        return 0 if database is None else max(0, database.rows - len(self.answered))

    @property
    def unread(self) -> int:
        """Events that :meth:`read` has not returned."""
        database = self._database
        return 0 if database is None else database.unread

    @property
    def in_flight(self) -> int:
        """Events that were read and not deleted."""
        database = self._database
        return 0 if database is None else len(database.in_flight)

    @property
    def bytes(self) -> int:
        """Size on disk."""
        database = self._database
        return 0 if database is None else database.bytes

    def open(self) -> int:
        """Make a file. If there are no events in it, take over the oldest file of a process that is gone.

        Returns:
            The number of events taken over.

        Raises:
            OSError, sqlite3.Error: The folder or the file can't be made.
        """
        with self._lock:
            self.more = False
            if self._ensured().rows:
                return 0
            found = self._left_behind()
            if found is None:
                return 0
            self._ensured().close()
            self._database = found
            self.taken_over += found.rows
            log.warning("%d events of a process that is gone are taken over from %s", found.rows, found.path)
            return found.rows

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
                for group in _groups(records):
                    self._append(group, in_flight=in_flight)
                    written += len(group)
            except (OSError, sqlite3.Error) as error:
                if not written:
                    raise
                log.warning("%d of %d events were written to %s: %s", written, len(records), self.root, error)
        return written

    def read(self, most: int) -> list[RecordBatch]:
        """Return up to ``most`` of the oldest unread events, each with its place as the answer.

        Before it returns, the disk knows that Kafka may have them. If that can't be written they are returned all the same: they
        could arrive twice only if the process is killed too.

        Raises:
            sqlite3.Error: The disk can't be read.
        """
        with self._lock:
            database = self._database
            if database is None:
                return []
            try:
                found = database.read(most)
            except sqlite3.Error as error:
                if not is_damage(error, reading=True):
                    raise
                self._set_aside(database, error)
                return []
            try:
                database.note_handed_over()
            except sqlite3.Error as error:
                self._complaints.warning(f"what was sent can't be written to {database.path}", error)
            for number, record in found:
                record.answer = Place(self.answered, database, number)
            return [record for _, record in found]

    def progress(self) -> None:
        """Delete what Kafka has answered for."""
        with self._lock:
            self._progress()

    def go_back(self) -> None:
        """Read again what is in flight, marked as sent: it will get no answer."""
        with self._lock:
            self._progress()
            if self._database is not None:
                self._database.go_back()

    def close(self) -> None:
        """Delete what Kafka has answered for, and leave the rest to the next process."""
        with self._lock:
            self._progress()
            if self._database is not None:
                self._database.close()

    def _reset_in_child(self) -> None:
        if self._database is not None:
            self._database.abandon()
        self._start_afresh()

    def _ensured(self) -> Database:
        self._check()
        if self._database is None:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.root / f"{os.getpid()}-{uuid.uuid4().hex}{SUFFIX}"
            self._database = Database(path, fsync=self._fsync, create=True)
        return self._database

    def _check(self) -> None:
        database = self._database
        if database is not None and not database.path.exists():
            self._lose(database, "the file was deleted")
            database.rows = 0
            database.close()

    def _append(self, records: Sequence[RecordBatch], *, in_flight: bool) -> None:
        database = self._ensured()
        self._make_room(database, sum(map(_size, records)))
        try:
            numbers = database.append(records, in_flight=in_flight)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._set_aside(database, error)
            database = self._ensured()
            numbers = database.append(records, in_flight=in_flight)
        for record, number in zip(records, numbers, strict=True):
            if isinstance(record.answer, Place):
                record.answer.database, record.answer.number = database, number

    def _make_room(self, database: Database, size: int) -> None:
        limit = self.limit_bytes - LOG_BYTES
        while database.rows and database.bytes + size > limit:
            dropped = database.drop_oldest(max(size, min(_MOST_DROPPED_BYTES, self.limit_bytes // 8)))
            self.dropped += dropped
            if dropped:
                log.error(
                    "%d events were dropped, the oldest: the spool of %d bytes is full", dropped, self.limit_bytes
                )

    def _progress(self) -> None:
        self._check()
        places = [self.answered.popleft() for _ in range(len(self.answered))]
        database = self._database
        if database is None:
            return
        rows = database.rows
        try:
            database.delete(place.number for place in places if place.database is database)
        except sqlite3.Error as error:
            self.answered.extend(places)
            self._complaints.warning(f"what was acknowledged can't be written to {self.root}", error)
        if rows and not database.rows:
            self.more = True

    def _left_behind(self) -> Database | None:
        """Open the oldest file of a process that is gone, if there is one with events."""
        for path in sorted(self.root.glob(f"*{SUFFIX}"), key=_age):
            if self._database is not None and path == self._database.path:
                continue
            try:
                # An empty file belongs to a process that has not locked it yet; some files may be another user's.
                if not path.stat().st_size or not os.access(path, os.R_OK | os.W_OK):
                    continue
                found = Database(path, fsync=self._fsync)
            except (OSError, sqlite3.Error) as error:
                self._not_taken_over(path, error)
                continue
            if found.rows:
                return found
            found.close()
        return None

    def _not_taken_over(self, path: Path, error: Exception) -> None:
        if is_damage(error):
            self.damaged += 1
            log.error("%s is damaged and was renamed to %s: %s", path, set_aside(path), error)
        elif not (is_locked(error) or isinstance(error, FileNotFoundError)):
            self._complaints.warning(f"the events that a process left in {path} can't be read", error)

    def _set_aside(self, database: Database, error: Exception) -> None:
        self.damaged += 1
        self._lose(database, f"it is damaged ({error}) and was renamed to {database.set_aside()}")

    def _lose(self, database: Database, why: str) -> None:
        self._database = None  # first, so that no event is counted twice
        self.dropped += database.unread
        if database.unread:
            log.error("%d events in %s are lost: %s", database.unread, database.path, why)


def _groups(records: Sequence[RecordBatch]) -> Iterator[Sequence[RecordBatch]]:
    """Split records into runs of at most ``_GROUP_BYTES``, each with one record or more."""
    first = size = 0
    for number, record in enumerate(records):
        size += _size(record)
        if size > _GROUP_BYTES and number > first:
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
