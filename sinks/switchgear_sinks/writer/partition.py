"""One partition, from its assignment to its revocation: what waits, what is named, and how far it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.structs import OffsetAndMetadata, TopicPartition

from switchgear_sinks.writer.batches import BatchBuffer, Record
from switchgear_sinks.writer.intents import NOTHING, Committed, Intent
from switchgear_sinks.writer.settings import WriterLimits


class Partition:
    """The state of one partition. It takes part in one batch at a time.

    Args:
        place: The partition.
        limits: How much it may hold.
        committed: Its commit. A batch that a former owner named must be replayed first.
    """

    def __init__(self, place: TopicPartition, limits: WriterLimits, committed: Committed) -> None:
        self.place = place
        self.buffer = BatchBuffer(committed.stored)
        self.pending = committed.pending
        if self.pending is not None and self.pending.of(place.partition) is None:
            self.pending = None  # a commit of someone else
        self.busy = self.pending is not None
        """A batch of it is being stored, or must be replayed."""
        self.passed: int | None = None
        """An offset that the consumer has reached, and before which no record waits. It is to be committed."""
        self.landed: int | None = None
        """The offset after the last stored record; None until a record was read."""
        self._limits = limits
        self._stored = committed.stored

    @property
    def full(self) -> bool:
        """The buffer holds as much as one partition may."""
        return len(self.buffer) >= self._limits.partition_rows or self.buffer.size >= self._limits.partition_bytes

    @property
    def waiting(self) -> bool:
        """It has records for a batch, and is in none."""
        return not self.busy and len(self.buffer) > 0

    def feed(self, records: Sequence[Record], now: float) -> range:
        """Take records, in order. Return the offsets before them that have no record."""
        expected = self.buffer.next_offset
        self.buffer.add(records, now)
        if self.landed is None and records:
            self.landed = records[0].offset
        return range(expected, records[0].offset) if expected and records else range(0)

    def reached(self, position: int) -> range:
        """Note that the consumer has reached ``position``. Return the offsets before it that have no record.

        The marker at the end of a transaction has an offset but no record. Without this, a marker at the end of the log
        would show as lag indefinitely.
        """
        expected = self.buffer.next_offset
        if self.busy or len(self.buffer) or position <= (self.landed or 0):
            return range(0)
        self.buffer.skip_to(position)
        self.passed = position
        return range(expected, position) if expected else range(0)

    def replayed(self, first: int, stop: int) -> None:
        """Note that the pending batch has stored the records from ``first`` to before ``stop``."""
        self.pending = None
        if first < stop:
            self.buffer.skip(range(first, stop))

    def commit(self, offset: int, pending: Intent | None = None) -> OffsetAndMetadata:
        """Return the commit of ``offset``."""
        if offset >= self._stored.stop:
            self._stored = NOTHING
        return OffsetAndMetadata(offset, Committed(offset, pending, self._stored).metadata())
