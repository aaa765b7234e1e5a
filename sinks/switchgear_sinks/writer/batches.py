"""Records that wait for their batch, by partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from switchgear_sinks.writer.intents import NOTHING, Intent

RECORD_BYTES: Final = 256
"""Memory of a record besides its bytes, about."""


class Record(Protocol):
    """The part of aiokafka's ConsumerRecord that the writer uses."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one topic, by partition and offset, with the intent that names them and their size in bytes."""

    intent: Intent
    records: list[Record]
    size: int


class BatchBuffer:
    """Records of one partition, in order of offset.

    Args:
        stored: Offsets that the store has already. They are passed over, and no batch reaches across them: a batch is all records
            of its range.
    """

    def __init__(self, stored: range = NOTHING) -> None:
        self._records: deque[Record] = deque()
        self._arrivals: deque[tuple[float, int]] = deque()  # (when, how many of the records came then)
        self._barrier = stored.start if stored else None
        self._skipped = [stored] if stored else []
        self.size = 0
        self.next_offset = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def oldest_at(self) -> float:
        """When the oldest record came. There must be one."""
        return self._arrivals[0][0]

    def add(self, records: Sequence[Record], now: float) -> int:
        """Append records in offset order, skip those that were seen before or are to be skipped, and return how many were new."""
        fresh = [record for record in records if record.offset >= self.next_offset]
        if not fresh:
            return 0
        self.next_offset = fresh[-1].offset + 1
        if self._skipped:
            fresh = [record for record in fresh if not any(record.offset in each for each in self._skipped)]
            # a topic that is created again begins with the same offsets
            self._skipped = [each for each in self._skipped if self.next_offset <= each.stop]
        if fresh:
            self._records.extend(fresh)
            self._arrivals.append((now, len(fresh)))
            self.size += sum(map(size_of, fresh))
        return len(fresh)

    def skip(self, offsets: range) -> None:
        """Drop the records at ``offsets``, those that came and those that will come."""
        self._skipped.append(offsets)
        kept = [record for record in self._records if record.offset not in offsets]
        if len(kept) < len(self._records):
            self._arrivals = deque([(self.oldest_at, len(kept))] if kept else [])
            self._records = deque(kept)
            self.size = sum(map(size_of, kept))

    def skip_to(self, offset: int) -> None:
        """Note that the log has no other records before ``offset`` than those added."""
        self.next_offset = max(self.next_offset, offset)

    def take(self, rows: int, size: int) -> tuple[list[Record], int]:
        """Remove the first records, and return them with their bytes: at most ``rows``, and about ``size`` bytes, but at least one."""
        found: list[Record] = []
        taken, barrier = 0, self._barrier
        if barrier is not None and (not self._records or self._records[0].offset >= barrier):
            barrier = None
        while self._records and len(found) < rows and taken < size:
            if barrier is not None and self._records[0].offset >= barrier:
                break
            record = self._take()
            found.append(record)
            taken += size_of(record)
        return found, taken

    def _take(self) -> Record:
        record = self._records.popleft()
        self.size -= size_of(record)
        when, count = self._arrivals[0]
        if count == 1:
            self._arrivals.popleft()
        else:
            self._arrivals[0] = (when, count - 1)
        return record


def size_of(record: Record) -> int:
    """Return the bytes that the record takes in memory. An empty one takes some too."""
    size = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers) if record.headers else size
