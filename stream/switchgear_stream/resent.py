"""Events that their producer may have sent before (header ``switchgear.resent``): a copy is acknowledged and not counted.

A producer that does not know whether a batch was written sends it again, so marked. Which copy counts follows from the log alone,
however often it is replayed: the first of its partition. An event that is marked is a copy where an earlier record of the partition,
appended at most :data:`SLACK_S` before the event was recorded, is a valid execution with the same ``metric_id``. What the window holds
before the batch is read back from Kafka, once for all marked events of a batch, and remembered for the next batches.

Not covered: copies without the mark (or without ``metric_id``), and a marked event that overtakes its first copy: of two requests that a
stalled broker took the later one first, or the first copy went to a wrong partition (a producer with another partitioner than ours)
and was sent on from there after the second had come.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final, TypeVar

import structlog
from aiokafka.errors import KafkaError

from switchgear.fleet import LogRecord
from switchgear_schemas import InvalidExecutionError
from switchgear_schemas.headers import RESENT
from switchgear_schemas.settings import Settings
from switchgear_schemas.wire import Execution, decode_execution
from switchgear_stream.log_window import LogWindow
from switchgear_stream.metrics import WorkerMetrics

log = structlog.get_logger()
_R = TypeVar("_R", bound=LogRecord)

SLACK_S: Final = 60.0
"""How far the producer's clock may be ahead of the broker's for its first copy to be found."""
LIMIT_S: Final = 10.0
"""Longest reading of one batch's window. Then its marked events are counted: a call too many in a circuit that is being hit anyway does
less than a worker that decides nothing meanwhile. It happens where the window holds millions of records, and is told."""
AWAY_S: Final = 30.0
"""Longest wait for a broker that gives nothing, as for its acknowledgements: then the batch is folded again after a restart."""
SILENCE: Final = 0.2
"""Share of the limit. A broker that gave nothing for so long at the end of it went away; the window is not what is too long."""
AGAIN_S: Final = 0.5
ROUND_MS: Final = 60_000
"""Windows begin on a whole minute, so that the next batches of the same outage find theirs remembered."""
REMEMBERED: Final = 200_000
"""Ids kept between batches, about 30 MB; beyond it the next marked event reads its window anew."""


@dataclass(slots=True)
class Memory:
    """The log from broker time ``since_ms``, or offset ``first``, up to offset ``end``: when each ``metric_id`` was last appended."""

    since_ms: int
    first: int
    end: int
    appended_ms: dict[bytes, int] = field(default_factory=dict)

    def add(self, record: LogRecord, identity: bytes | None) -> None:
        """The next record of the partition."""
        self.end = record.offset + 1
        if identity is not None:
            self.appended_ms[identity] = record.timestamp

    def put_before(self, older: Memory) -> None:
        """Lengthen it to the front by what lies right before."""
        self.since_ms, self.first = older.since_ms, older.first
        self.appended_ms = older.appended_ms | self.appended_ms


class ResentFence:
    """Takes copies out of the batches of the executions topic.

    Args:
        settings: brokers and ``late_after_s``: an event that comes later than that is not counted anyway.
        metrics: where copies are counted.
        limit_s: of reading back, a batch.
        away_s: of waiting for a broker that gives nothing.
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

    def forget(self) -> None:
        """Partitions changed hands."""
        self._memories.clear()

    async def without_copies(self, records: list[_R]) -> list[_R]:
        """The records of one poll of one partition, in order, without those that are copies of earlier ones.

        Where the window is too long to be read in time, its marked events stay.

        Raises:
            TimeoutError, KafkaError: the broker gave nothing for 30 s.
        """
        marked = {record.offset: event for record in records if (event := self._marked(record)) is not None}
        if not marked:
            return records
        partition, first = records[0].partition, records[0].offset
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
            else:
                kept.append(record)
                if start is not None:
                    self._metrics.resent.labels("first").inc()
            memory.add(record, identity)
        self._remember(partition, memory)
        return kept

    def _marked(self, record: LogRecord) -> Execution | None:
        """The event, where it has to be looked up: marked, valid, with an id, and not too late to be counted."""
        if not record.headers or all(name != RESENT for name, _ in record.headers):
            return None
        event = _decoded(record)
        if event is None or event.metric_id is None:
            return None
        recorded_ms = _recorded_ms(event)
        late = recorded_ms is not None and record.timestamp - recorded_ms > self._settings.late_after_s * 1000
        return None if late else event

    def _start(self, record: LogRecord, event: Execution) -> int:
        """The earliest broker time, in milliseconds, at which the first copy can have been appended."""
        recorded_ms = _recorded_ms(event)
        if recorded_ms is None:
            recorded_ms = record.timestamp - int(self._settings.late_after_s * 1000)
        return max(0, min(recorded_ms, record.timestamp) - int(SLACK_S * 1000))

    async def _reach_in_time(self, partition: int, end: int, start_ms: int) -> Memory | None:
        """:meth:`_reach`, tried again while the broker is away; null where it gives more than can be read in time."""
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
        """What the partition holds from ``start_ms`` up to offset ``end``.

        Raises:
            TimeoutError, KafkaError: the broker did not give it.
        """
        known = self._memories.pop(partition, None)  # not to be used again where this fails half way
        if known is not None and known.end == end and known.since_ms <= start_ms:
            return known
        since_ms = start_ms - start_ms % ROUND_MS
        async with LogWindow(self._settings, self._settings.topics.executions, partition) as window:
            first = await window.offset_at(since_ms)
            first = end if first is None else min(first, end)
            if known is None or not first <= known.end <= end:
                return await self._read(window, since_ms, first, end)
            newer = await self._read(window, known.since_ms, known.end, end)
            newer.put_before(known)
            if since_ms < newer.since_ms:
                newer.put_before(await self._read(window, since_ms, first, newer.first))
            return newer

    async def _read(self, window: LogWindow, since_ms: int, first: int, end: int) -> Memory:
        memory = Memory(since_ms, first, first)
        async for records in window.records(first, end):
            for record in records:
                memory.add(record, _identity(record))
            if records:
                self._got_at = time.monotonic()
            await asyncio.sleep(0)  # heartbeats and the health of the process go on
        memory.end = max(first, end)
        return memory

    def _remember(self, partition: int, memory: Memory) -> None:
        if len(memory.appended_ms) <= REMEMBERED:
            self._memories[partition] = memory


def _identity(record: LogRecord) -> bytes | None:
    """Of a valid execution: what was refused was never counted, and its repaired copy is none."""
    event = _decoded(record)
    return None if event is None or event.metric_id is None else event.metric_id.bytes


def _decoded(record: LogRecord) -> Execution | None:
    try:
        return decode_execution(record.value)
    except InvalidExecutionError:
        return None


def _recorded_ms(event: Execution) -> int | None:
    at = event.recorded_at
    if at is None:
        return None
    return int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
