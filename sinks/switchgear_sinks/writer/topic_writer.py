"""Write one topic: what waits in all its partitions becomes one batch, which is named, inserted and committed.

An insert costs the same for 2 rows and for 200, so partitions share it. Each partition's commit names the whole batch, and the insert's
token is made of that name. Whoever owns one of the partitions after a crash forms the same batch again, under the same token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from switchgear_sinks.writer.batches import Batch, Record, size_of
from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.intents import MOST_RANGES, Intent, Range
from switchgear_sinks.writer.offset_commits import Commits, LostPartitionError
from switchgear_sinks.writer.pace import Pace
from switchgear_sinks.writer.partition import Partition
from switchgear_sinks.writer.replay import ReadRanges
from switchgear_sinks.writer.settings import WriterLimits

log = structlog.get_logger()

LANES: Final = 2
"""Batches of a topic that are stored at a time, of different partitions: one is decoded while the other is inserted."""


class TopicWriter:
    """Stores the records of one topic's partitions, from their assignment to their revocation.

    Args:
        topic: The topic.
        partitions: Those of this process, by number.
        inserter: Inserts the batches.
        commits: Commits the offsets.
        read: Reads the batches that former owners left.
        limits: Batch sizes.
        pace: Says when a batch is due by its age.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        topic: str,
        partitions: Mapping[int, Partition],
        inserter: Inserter,
        commits: Commits,
        read: ReadRanges,
        limits: WriterLimits,
        pace: Pace,
        clock: Callable[[], float],
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.hurried = False
        self._inserter = inserter
        self._commits = commits
        self._read = read
        self._limits = limits
        self._pace = pace
        self._clock = clock
        self._fed = asyncio.Event()
        self._running_bytes = 0
        self._ending = False

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that wait or are being inserted."""
        return self._running_bytes + sum(each.buffer.size for each in self.partitions.values())

    @property
    def unfinished(self) -> set[Intent]:
        """The batches of former owners that are not replayed yet."""
        return {each.pending for each in self.partitions.values() if each.pending is not None}

    def wake(self) -> None:
        """Look again what is due, because records or offsets have come."""
        self._fed.set()

    def hurry(self, *, hurried: bool = True) -> None:
        """Cut batches at once, however small, because memory is short."""
        self.hurried = hurried
        self.wake()

    def end(self) -> None:
        """Start no other batch. :meth:`run` returns when the running one is done."""
        self._ending = True
        self.wake()

    async def run(self) -> None:
        """Store batch after batch until :meth:`end`, or until other processes own the partitions. Run :data:`LANES` of these."""
        try:
            while (batch := await self._next()) is not None:
                await self._store(batch, self._members(batch.intent))
                self._release(batch.intent)
        except LostPartitionError as error:
            self._lost(error)

    async def replay(self, intent: Intent) -> None:
        """Finish the batch ``intent`` of a former owner, for those of its partitions whose commit names it."""
        members = {
            number: each for number, each in self._members(intent).items() if self.partitions[number].pending == intent
        }
        read = await self._read(self.topic, intent, [*members])
        try:
            await self._store(_batch(intent, read.records), members)
        except LostPartitionError as error:
            self._lost(error)
            return
        for number, named in members.items():
            self.partitions[number].replayed(named.first, min(named.last + 1, read.stops[number]))
        self._release(intent, members)

    async def _store(self, batch: Batch, members: Mapping[int, Range]) -> None:
        """Name the batch in the commits of ``members``, insert it, and commit past it."""
        fenced_at = float("-inf")

        async def fence() -> None:
            nonlocal fenced_at
            while self._clock() - fenced_at > self._limits.fence_s:
                # A slow answer proves only that this process was the owner when it asked.
                asked = self._clock()
                await self._commit({number: each.first for number, each in members.items()}, batch.intent)
                fenced_at = asked

        self._running_bytes += batch.size
        try:
            cost_s = await self._inserter.insert(self.topic, batch, fence)
        finally:
            self._running_bytes -= batch.size
        self._pace.book(cost_s, self._clock())
        for number, each in members.items():
            self.partitions[number].landed = each.last + 1
        await self._commit({number: each.last + 1 for number, each in members.items()})

    async def _next(self) -> Batch | None:
        while not self._ending:
            due_in = self._due_in()
            if due_in == 0.0:
                return self._cut()
            if await self._pass():
                continue
            self._fed.clear()
            try:
                async with asyncio.timeout(due_in):
                    await self._fed.wait()
            except TimeoutError:
                continue
        return None

    def _due_in(self) -> float | None:
        """Return the seconds until a batch is due; None if nothing waits."""
        waiting = [each.buffer for each in self.partitions.values() if each.waiting]
        if not waiting:
            return None
        full = (
            sum(map(len, waiting)) >= self._limits.batch_rows
            or sum(each.size for each in waiting) >= self._limits.batch_bytes
        )
        if full or self.hurried:
            return 0.0
        return max(0.0, self._pace.due_at(min(each.oldest_at for each in waiting)) - self._clock())

    def _cut(self) -> Batch:
        """Take what waits, the oldest first, up to the size of a batch. Its partitions are busy from now on."""
        waiting = sorted(
            (each for each in self.partitions.values() if each.waiting), key=lambda each: each.buffer.oldest_at
        )
        rows, size = self._limits.batch_rows, self._limits.batch_bytes
        found: dict[Range, list[Record]] = {}
        for each in waiting[:MOST_RANGES]:
            records, taken = each.buffer.take(rows, size)
            each.busy = True
            number = each.place.partition
            found[Range(number, records[0].offset, records[-1].offset, records[0].timestamp)] = records
            rows -= len(records)
            size -= taken
            if rows <= 0 or size <= 0:
                break
        intent = Intent.naming(found)
        return _batch(intent, [record for named in intent.ranges for record in found[named]])

    async def _pass(self) -> bool:
        """Commit past offsets without records. Return whether there were some."""
        passed = {
            number: each.passed
            for number, each in self.partitions.items()
            if each.passed is not None and not each.busy and not len(each.buffer)
        }
        for each in self.partitions.values():
            each.passed = None
        if not passed:
            return False
        for number in passed:
            self.partitions[number].busy = True
        await self._commit(passed)
        for number, position in passed.items():
            self.partitions[number].landed = position
            self.partitions[number].busy = False
        self.wake()
        return True

    async def _commit(self, offsets: Mapping[int, int], pending: Intent | None = None) -> None:
        each = self.partitions
        await self._commits.submit(
            {each[number].place: each[number].commit(offset, pending) for number, offset in offsets.items()}
        )

    def _members(self, intent: Intent) -> dict[int, Range]:
        """Return the ranges of the intent that are of this process's partitions."""
        return {each.partition: each for each in intent.ranges if each.partition in self.partitions}

    def _release(self, intent: Intent, members: Mapping[int, Range] | None = None) -> None:
        for number in self._members(intent) if members is None else members:
            self.partitions[number].busy = False
        self.wake()

    def _lost(self, error: LostPartitionError) -> None:
        log.info("other processes own the partitions", topic=self.topic, why=str(error))


def _batch(intent: Intent, records: list[Record]) -> Batch:
    return Batch(intent, records, sum(map(size_of, records)))
