"""Write one partition: its records become batches, which are inserted and committed strictly in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.batches import Batch, BatchBuffer, Record
from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.offset_commits import NOTHING, Commits, Committed, Intent, LostPartitionError
from switchgear_sinks.writer.settings import WriterLimits

log = structlog.get_logger()


class PartitionWriter:
    """Writes one partition, from its assignment to its revocation. Partitions do not wait for each other."""

    def __init__(
        self,
        partition: TopicPartition,
        inserter: Inserter,
        commits: Commits,
        limits: WriterLimits,
        clock: Callable[[], float],
        committed: Committed,
    ) -> None:
        self.partition = partition
        self.buffer = BatchBuffer(limits, committed.pending)
        self.hurried = False
        self._inserter = inserter
        self._commits = commits
        self._limits = limits
        self._clock = clock
        self._fed = asyncio.Event()
        self._running_bytes = 0
        self._ending = False
        self._fenced_at = 0.0
        self._passed: int | None = None
        self._skipped = self._stored = committed.stored
        self.landed: int | None = None
        """The offset after the last stored record; None until a record was read."""

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that wait or are being inserted."""
        return self.buffer.size + self._running_bytes

    @property
    def full(self) -> bool:
        """The buffer holds as much as one partition may."""
        return len(self.buffer) >= self._limits.partition_rows or self.buffer.size >= self._limits.partition_bytes

    def feed(self, records: Sequence[Record]) -> range:
        """Take records, in order. Return the offsets before them that have no record.

        Records that the store has already are passed over, while the partition is read again.
        """
        if self._skipped:
            records = self._without_stored(records)
        expected = self.buffer.next_offset
        self.buffer.add(records, self._clock())
        if self.landed is None and records:
            self.landed = records[0].offset
        self._fed.set()
        return range(expected, records[0].offset) if expected and records else range(0)

    def _without_stored(self, records: Sequence[Record]) -> Sequence[Record]:
        missing = [record for record in records if record.offset not in self._skipped]
        if records and records[-1].offset >= self._skipped.stop:
            self._skipped = NOTHING  # a topic that is created again begins with the same offsets
        return missing

    def passed(self, position: int) -> range:
        """Note that the consumer has reached ``position``. Return the offsets before it that have no record.

        The marker at the end of a transaction has an offset but no record. Without this, a marker at the end of the log
        would show as lag indefinitely.
        """
        expected = self.buffer.next_offset
        if self.buffer.pending is not None or len(self.buffer) or position <= expected:
            return range(0)
        self.buffer.skip_to(position)
        self._passed = position
        self._fed.set()
        return range(expected, position) if expected else range(0)

    def end_of_log(self) -> None:
        """Note that the log has no more records now."""
        self.buffer.end_of_log()
        self._fed.set()

    def hurry(self, *, hurried: bool = True) -> None:
        """Cut batches at once, however small, because memory is short."""
        self.hurried = hurried
        self._fed.set()

    def end(self) -> None:
        """Start no other batch. :meth:`run` returns when the running one is done."""
        self._ending = True
        self._fed.set()

    async def run(self) -> None:
        """Insert batch after batch until :meth:`end`, or until another process owns the partition."""
        try:
            batch = await self._next()
            while batch is not None:
                self._running_bytes = batch.size
                await self._insert(batch)
                self._running_bytes = 0
                following = None if self._ending else self._cut()
                if following is None:  # otherwise the commit of the next intent covers this batch
                    await self._commit(batch.intent.last + 1)
                    following = await self._next()
                batch = following
        except LostPartitionError as error:
            log.info(
                "another process owns the partition",
                topic=self.partition.topic,
                partition=self.partition.partition,
                why=str(error),
            )

    async def _insert(self, batch: Batch) -> None:
        self._fenced_at = float("-inf")

        async def fence() -> None:
            while self._clock() - self._fenced_at > self._limits.fence_s:
                # A slow answer proves only that this process was the owner when it asked.
                asked = self._clock()
                await self._commit(batch.intent.first, batch.intent)
                self._fenced_at = asked

        await self._inserter.insert(self.partition.topic, self.partition.partition, batch, fence)
        self.landed = batch.intent.last + 1

    async def _next(self) -> Batch | None:
        while not self._ending:
            batch = self._cut()
            if batch is not None:
                return batch
            if self._passed is not None:
                await self._pass(self._passed)
                continue
            self._fed.clear()
            try:
                await asyncio.wait_for(self._fed.wait(), self.buffer.due_in(self._clock()))
            except TimeoutError:
                continue
        return None

    async def _pass(self, position: int) -> None:
        """Commit past offsets without records. No batch is running."""
        self._passed = None
        if self.landed is None or position > self.landed:
            await self._commit(position)
            self.landed = position

    async def _commit(self, offset: int, pending: Intent | None = None) -> None:
        await self._commits.submit(self.partition, offset, Committed(offset, pending, self._stored).metadata())
        if offset >= self._stored.stop:
            self._stored = NOTHING

    def _cut(self) -> Batch | None:
        return self.buffer.cut(self._clock(), everything=self.hurried)
