"""One partition: its records wait, become batches, are inserted and committed, strictly in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.batches import Batch, BatchBuffer, Record
from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.offset_commits import Commits, Intent, LostPartitionError
from switchgear_sinks.writer.settings import Limits

log = structlog.get_logger()


class PartitionWriter:
    """Made when the partition is assigned, ended when it is revoked. Partitions do not wait for each other."""

    def __init__(
        self,
        partition: TopicPartition,
        inserter: Inserter,
        commits: Commits,
        limits: Limits,
        clock: Callable[[], float],
        pending: Intent | None,
    ) -> None:
        self.partition = partition
        self.buffer = BatchBuffer(limits, pending)
        self.hurried = False
        self._inserter = inserter
        self._commits = commits
        self._limits = limits
        self._clock = clock
        self._fed = asyncio.Event()
        self._in_hand = 0
        self._ending = False
        self._fenced_at = 0.0
        self._passed: int | None = None
        self.landed: int | None = None
        """Offset after the last record that is stored; None while nothing has been read."""

    @property
    def held_bytes(self) -> int:
        """Message bytes waiting or being inserted."""
        return self.buffer.size + self._in_hand

    @property
    def full(self) -> bool:
        """No more records, please."""
        return len(self.buffer) >= self._limits.partition_rows or self.buffer.size >= self._limits.partition_bytes

    def feed(self, records: Sequence[Record]) -> range:
        """Take records, in order. Returns the offsets before the first that had none."""
        expected = self.buffer.next_offset
        self.buffer.add(records, self._clock())
        if self.landed is None and records:
            self.landed = records[0].offset
        self._fed.set()
        return range(expected, records[0].offset) if expected and records else range(0)

    def passed(self, position: int) -> range:
        """The consumer has come to ``position``; before it is no record but those that were fed. Returns the offsets without one.

        The end of a transaction takes an offset: where it is the last one, it would be lag for good.
        """
        expected = self.buffer.next_offset
        if self.buffer.pending is not None or len(self.buffer) or position <= expected:
            return range(0)
        self.buffer.skip_to(position)
        self._passed = position
        self._fed.set()
        return range(expected, position) if expected else range(0)

    def end_of_log(self) -> None:
        """There is nothing after what was fed."""
        self.buffer.end_of_log()
        self._fed.set()

    def hurry(self, *, hurried: bool = True) -> None:
        """Cut batches at once, however small: memory is short."""
        self.hurried = hurried
        self._fed.set()

    def end(self) -> None:
        """Start no other batch; :meth:`run` returns when the present one is done."""
        self._ending = True
        self._fed.set()

    async def run(self) -> None:
        """Land batch after batch until :meth:`end`, or until the partition is found to belong to another process."""
        try:
            batch = await self._next()
            while batch is not None:
                self._in_hand = batch.size
                await self._land(batch)
                self._in_hand = 0
                following = None if self._ending else self._cut()
                if following is None:  # otherwise its intent says as well that this batch is done
                    await self._commits.submit(self.partition, batch.intent.last + 1)
                    following = await self._next()
                batch = following
        except LostPartitionError as error:
            log.info(
                "partition moved on", topic=self.partition.topic, partition=self.partition.partition, why=str(error)
            )

    async def _land(self, batch: Batch) -> None:
        self._fenced_at = float("-inf")

        async def fence() -> None:
            while self._clock() - self._fenced_at > self._limits.fence_s:
                asked = (
                    self._clock()
                )  # an answer that took long proves no more than that we were the owner when we asked
                await self._commits.submit(self.partition, batch.intent.first, batch.intent.metadata())
                self._fenced_at = asked

        await self._inserter.land(self.partition.topic, self.partition.partition, batch, fence)
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
        """Commit past offsets without records. No batch is in hand."""
        self._passed = None
        if self.landed is None or position > self.landed:
            await self._commits.submit(self.partition, position)
            self.landed = position

    def _cut(self) -> Batch | None:
        return self.buffer.cut(self._clock(), everything=self.hurried)
