"""Events that their producer may have sent before. A copy is acknowledged and not counted.

A producer that does not know whether a batch was written sends it again with the header ``switchgear.resent``. The first copy in the
partition counts, so every replay of the log gives the same result. A marked event is a copy if an earlier record of its partition is a
valid execution with the same ``metric_id``. That record must be appended at most :data:`SLACK_S` before the event was recorded. The fence
reads this part of the partition (the window) once for all marked events of a batch, and remembers it for the next batches.

A marked event may overtake its first copy: a gateway that stood still sends it after another gateway has sent the marked one. Then the
marked one counts, and the first copy doesn't. The fence remembers the marked events of the last two minutes for that.

Not covered: a copy without the mark or without ``metric_id``, and an overtaken first copy if another process got the partition in between, or
if the producer's partitioner sent it to a wrong partition.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog
from aiokafka.errors import KafkaError

from switchgear.fleet import LogRecord
from switchgear_schemas import InvalidExecutionError
from switchgear_schemas.headers import RESENT
from switchgear_schemas.marked_ids import MarkedIds
from switchgear_schemas.settings import Settings
from switchgear_schemas.wire import Execution, decode_execution
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.topic_reader import PartitionReader, open_partition

log = structlog.get_logger()
_R = TypeVar("_R", bound=LogRecord)

SLACK_S: Final = 60.0
"""How far the producer's clock may be ahead of the broker's, so that the first copy is still found."""
LIMIT_S: Final = 10.0
"""Longest reading of one batch's window. After it the marked events are counted, and a metric says so. One call too many does less harm
than a worker that decides nothing. Only a window of millions of records takes so long."""
AWAY_S: Final = 30.0
"""Longest wait for a broker that delivers nothing. After it the process ends, and the batch is folded again after a restart."""
SILENCE: Final = 0.2
"""Share of the limit. If the broker delivered nothing during the last such part, the broker is away. Else the window is too long."""
AGAIN_S: Final = 0.5
ROUND_MS: Final = 60_000
"""Windows begin on a whole minute, so that the next batches of the same outage can use the same window."""
REMEMBERED: Final = 200_000
"""Ids kept between batches, about 30 MB. With more, the next marked event reads its window again."""


@dataclass(slots=True)
class Memory:
    """The log from broker time ``since_ms`` (offset ``first``) up to offset ``end``: when each ``metric_id`` was last appended."""

    since_ms: int
    first: int
    end: int
    appended_ms: dict[bytes, int] = field(default_factory=dict)

    def add(self, record: LogRecord, identity: bytes | None) -> None:
        """Add the next record of the partition."""
        self.end = record.offset + 1
        if identity is not None:
            self.appended_ms[identity] = record.timestamp

    def put_before(self, older: Memory) -> None:
        """Prepend the records directly before it."""
        self.since_ms, self.first = older.since_ms, older.first
        self.appended_ms = older.appended_ms | self.appended_ms


class ResentFence:
    """Removes copies from the batches of the executions topic.

    Args:
        settings: The brokers, and ``late_after_s``: an event that arrives later is not counted anyway.
        metrics: Where copies are counted.
        limit_s: Longest reading of the window, per batch.
        away_s: Longest wait for a broker that delivers nothing.
    """

    def __init__(
        self, settings: Settings, metrics: WorkerMetrics, *, limit_s: float = LIMIT_S, away_s: float = AWAY_S
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._limit_s = limit_s
        self._away_s = away_s
        self._got_at = -math.inf
        self._memories: dict[int, Memory] = {}
        self._overtaking: dict[int, MarkedIds] = {}

    def forget(self) -> None:
        """Forget what was read of the log, because the assignment changes.

        The marked events stay: what lets producers send again, such as a broker that restarts, often lets workers join again, too.
        """
        self._memories.clear()

    def keep(self, partitions: Collection[int]) -> None:
        """Forget the marked events of all partitions but these, which are assigned now."""
        self._overtaking = {each: found for each, found in self._overtaking.items() if each in partitions}

    async def without_copies(self, records: list[_R]) -> list[_R]:
        """Return the records of one batch without the copies of earlier records.

        If the window is too long to be read in time, the marked events stay.

        Args:
            records: The records of one poll of one partition, in order.

        Raises:
            TimeoutError, KafkaError: The broker delivered nothing for 30 s.
        """
        marked = {record.offset: event for record in records if (event := self._marked(record)) is not None}
        if not records:
            return records
        partition, first = records[0].partition, records[0].offset
        overtaking = self._overtaking.setdefault(partition, MarkedIds())
        some_overtook = overtaking.any_at(records[0].timestamp)
        if not marked:
            return self._not_overtaken(records, overtaking) if some_overtook else records
        starts = {
            record.offset: self._start(record, marked[record.offset]) for record in records if record.offset in marked
        }
        memory = await self._reach_in_time(partition, first, min(starts.values()))
        if memory is None:
            self._metrics.resent.labels("unknown").inc(len(marked))
            log.warning("resent_unknown", partition=partition, events=len(marked), seconds=self._limit_s)
            return records
        kept = []
        for record in records:
            identity = _identity(record)
            start = starts.get(record.offset)
            if start is not None and identity is not None and memory.appended_ms.get(identity, -1) >= start:
                self._metrics.resent.labels("copy").inc()
            elif start is None:
                kept += self._not_overtaken([record], overtaking)
            else:
                kept.append(record)
                self._metrics.resent.labels("first").inc()
                if identity is not None:
                    overtaking.add(identity, record.timestamp)
            memory.add(record, identity)
        self._remember(partition, memory)
        return kept

    def _not_overtaken(self, records: list[_R], overtaking: MarkedIds) -> list[_R]:
        """Return the unmarked records whose marked copy has not counted already."""
        kept = [
            record
            for record in records
            if (found := _identity(record)) is None or not overtaking.overtook(found, record.timestamp)
        ]
        self._metrics.resent.labels("copy").inc(len(records) - len(kept))
        return kept

    def _marked(self, record: LogRecord) -> Execution | None:
        """Return the event if it must be looked up: it is marked, valid, has an id, and is not too late to be counted."""
        if not record.headers or all(name != RESENT for name, _ in record.headers):
            return None
        event = _decoded(record)
        if event is None or event.metric_id is None:
            return None
        recorded_ms = _recorded_ms(event)
        late = recorded_ms is not None and record.timestamp - recorded_ms > self._settings.late_after_s * 1000
        return None if late else event

    def _start(self, record: LogRecord, event: Execution) -> int:
        """Return the earliest broker time, in milliseconds, at which the first copy can have been appended."""
        recorded_ms = _recorded_ms(event)
        if recorded_ms is None:
            recorded_ms = record.timestamp - int(self._settings.late_after_s * 1000)
        return max(0, min(recorded_ms, record.timestamp) - int(SLACK_S * 1000))

    async def _reach_in_time(self, partition: int, end: int, start_ms: int) -> Memory | None:
        """Call :meth:`_reach`, and try again while the broker is away. Return None if the window is too long to be read in time."""
        give_up = time.monotonic() + self._away_s
        while True:
            self._got_at = -math.inf
            try:
                async with asyncio.timeout(self._limit_s):
                    return await self._reach(partition, end, start_ms)
            except (TimeoutError, KafkaError) as error:
                silent_s = time.monotonic() - self._got_at
                if isinstance(error, TimeoutError) and silent_s < SILENCE * self._limit_s:
                    return None
                if time.monotonic() >= give_up:
                    raise
                log.warning("resent_waits", partition=partition, reason=repr(error))
            await asyncio.sleep(AGAIN_S)

    async def _reach(self, partition: int, end: int, start_ms: int) -> Memory:
        """Return what the partition holds from ``start_ms`` up to offset ``end``.

        Raises:
            TimeoutError, KafkaError: The broker did not deliver it.
        """
        known = self._memories.pop(partition, None)  # it must not be used again if this fails halfway
        if known is not None and known.end == end and known.since_ms <= start_ms:
            return known
        since_ms = start_ms - start_ms % ROUND_MS
        async with open_partition(self._settings, self._settings.topics.executions, partition) as reader:
            first = await reader.offset_at(since_ms)
            first = end if first is None else min(first, end)
            if known is None or not first <= known.end <= end:
                return await self._read(reader, since_ms, first, end)
            newer = await self._read(reader, known.since_ms, known.end, end)
            newer.put_before(known)
            if since_ms < newer.since_ms:
                newer.put_before(await self._read(reader, since_ms, first, newer.first))
            return newer

    async def _read(self, reader: PartitionReader, since_ms: int, first: int, end: int) -> Memory:
        memory = Memory(since_ms, first, first)
        async for records in reader.records(first, end):
            for record in records:
                memory.add(record, _identity(record))
            if records:
                self._got_at = time.monotonic()
            await asyncio.sleep(0)  # let the watchdog and the HTTP server run
        memory.end = max(first, end)
        return memory

    def _remember(self, partition: int, memory: Memory) -> None:
        if len(memory.appended_ms) <= REMEMBERED:
            self._memories[partition] = memory


def _identity(record: LogRecord) -> bytes | None:
    """Return the id of a valid execution. A refused one was never counted, so its repaired version isn't a copy."""
    event = _decoded(record)
    return None if event is None or event.metric_id is None else event.metric_id.bytes


def _decoded(record: LogRecord) -> Execution | None:
    try:
        return decode_execution(record.value)
    except InvalidExecutionError:
        return None


def _recorded_ms(event: Execution) -> int | None:
    return None if event.recorded_s is None else int(event.recorded_s * 1000)
