"""Cut the records of one partition into batches, by size and age. A pending range is cut exactly as it was named."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from switchgear_sinks.writer.offset_commits import Intent
from switchgear_sinks.writer.settings import WriterLimits

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
    """Records of one partition, in order, with the intent that names them and their size in bytes."""

    intent: Intent
    records: list[Record]
    size: int


class BatchBuffer:
    """Records that wait for their batch.

    Args:
        limits: Batch sizes.
        pending: A range that a former owner named and may not have finished. It becomes the first batch.
    """

    def __init__(self, limits: WriterLimits, pending: Intent | None = None) -> None:
        self._limits = limits
        self.pending = pending
        self._records: deque[Record] = deque()
        self._arrivals: deque[tuple[float, int]] = deque()  # (when, how many of the records came then)
        self.size = 0
        self.next_offset = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: Sequence[Record], now: float) -> int:
        """Append records in offset order, skip those that were seen before, and return how many were new."""
        fresh = [record for record in records if record.offset >= self.next_offset]
        if fresh:
            self._records.extend(fresh)
            self._arrivals.append((now, len(fresh)))
            self.size += sum(_size(record) for record in fresh)
            self.next_offset = fresh[-1].offset + 1
        return len(fresh)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the oldest record has waited long enough; None if nothing waits or the pending range is incomplete."""
        if not self._records or self.pending is not None:
            return None
        return max(0.0, self._arrivals[0][0] + self._limits.batch_age_s - now)

    def cut(self, now: float, *, everything: bool = False) -> Batch | None:
        """Return the next batch, if one is due. With ``everything``, don't wait for size or age, because memory is short."""
        if self.pending is not None:
            return self._cut_pending(self.pending)
        if not self._records:
            return None
        full = len(self._records) >= self._limits.batch_rows or self.size >= self._limits.batch_bytes
        if not (full or everything or self.due_in(now) == 0.0):
            return None
        records: list[Record] = []
        size = 0
        while self._records and len(records) < self._limits.batch_rows and size < self._limits.batch_bytes:
            record = self._take()
            records.append(record)
            size += _size(record)
        return Batch(Intent(records[0].offset, records[-1].offset, records[0].timestamp), records, size)

    def skip_to(self, offset: int) -> None:
        """Note that the log has no other records before ``offset`` than those added."""
        self.next_offset = max(self.next_offset, offset)

    def end_of_log(self) -> None:
        """Note that the log ends here. A pending range whose last records were compacted away is then complete."""
        if self.pending is not None and self.next_offset <= self.pending.last:
            self.next_offset = self.pending.last + 1

    def _cut_pending(self, pending: Intent) -> Batch | None:
        if self.next_offset <= pending.last:
            return None
        self.pending = None
        records: list[Record] = []
        while self._records and self._records[0].offset <= pending.last:
            records.append(self._take())
        return Batch(pending, records, sum(_size(record) for record in records))

    def _take(self) -> Record:
        record = self._records.popleft()
        self.size -= _size(record)
        when, count = self._arrivals[0]
        if count == 1:
            self._arrivals.popleft()
        else:
            self._arrivals[0] = (when, count - 1)
        return record


def _size(record: Record) -> int:
    """Return the bytes that the record takes in memory. An empty one takes some too."""
    size = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers) if record.headers else size
