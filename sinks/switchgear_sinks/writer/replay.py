"""Read again the batch that a former owner named: all its ranges, those of partitions that this process doesn't own too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import IllegalStateError, KafkaError
from aiokafka.structs import TopicPartition

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.unreadable import guard
from switchgear_sinks.writer.batches import Record
from switchgear_sinks.writer.intents import Intent, Range
from switchgear_sinks.writer.offset_commits import CommittedOffsets

log = structlog.get_logger()

_POLL_MS: Final = 100
_POSITION_LIMIT_S: Final = 0.2
_WAIT_S: Final = 0.5
_END_SETTLES_S: Final = 5.0
"""The end of the log that a broker reports just after a change of leader may be too low."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was read of a batch: its records, by partition and offset, and for each partition the offset after what was read."""

    records: list[Record]
    stops: Mapping[int, int]


class ReadRanges(Protocol):
    """Reads the ranges of a batch."""

    async def __call__(self, topic: str, intent: Intent, own: Collection[int]) -> Replayed:
        """Return the batch's records. ``own`` are the partitions of this process whose commits name the batch."""
        ...


class RangeReader:
    """Reads batches from Kafka, with a consumer of no group.

    Args:
        connection: The brokers.
        committed: Says whose commits still name a batch.
        options: More options of the consumer, the same as those of the one that has read the batch before.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        committed: CommittedOffsets,
        options: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._committed = committed
        self._options = options
        self._clock = clock

    async def __call__(self, topic: str, intent: Intent, own: Collection[int]) -> Replayed:
        """Return the batch's records, without those of partitions whose commit doesn't name it anymore. Waits for a broker.

        Such a partition's owner has finished the batch. The store of that time has all of it, and drops a copy, whatever its rows are. A
        store that doesn't have it is another one, and reads those rows again with what lies before them.

        Raises:
            BrokerUnavailableError: The group's coordinator gave no answer in ten seconds.
        """
        others = [TopicPartition(topic, each.partition) for each in intent.ranges if each.partition not in own]
        committed = await self._committed.read(others)
        naming = {*own, *(each.partition for each, at in committed.items() if at.pending == intent)}
        ranges = [each for each in intent.ranges if each.partition in naming]
        while True:
            try:
                return await self._read(topic, ranges)
            except (KafkaError, OSError) as error:
                log.warning("a batch can't be read again yet", reason=str(error) or type(error).__name__)
                await asyncio.sleep(_WAIT_S)

    async def _read(self, topic: str, ranges: list[Range]) -> Replayed:
        consumer = AIOKafkaConsumer(**self._connection.options(), **self._options)
        try:
            await consumer.start()
            guard(consumer)
            left = {TopicPartition(topic, each.partition): each for each in ranges}
            consumer.assign([*left])
            for place, each in left.items():
                consumer.seek(place, each.first)
            records: dict[int, list[Record]] = {each.partition: [] for each in ranges}
            stops: dict[int, int] = {}
            grown_at = self._clock()
            while left:
                found = await consumer.getmany(*left, timeout_ms=_POLL_MS)
                grown_at = self._clock() if found else grown_at
                for place, new in found.items():
                    each = left[place]
                    records[each.partition] += [one for one in new if each.first <= one.offset <= each.last]
                for place, each in list(left.items()):
                    position, end = await position_of(consumer, place), consumer.highwater(place)
                    if position is None:
                        continue
                    ended = end is not None and position >= end and self._clock() - grown_at > _END_SETTLES_S
                    if position > each.last or ended:
                        stops[each.partition] = position
                        del left[place]
            return Replayed([record for each in ranges for record in records[each.partition]], stops)
        finally:
            await consumer.stop()


async def position_of(consumer: Any, place: TopicPartition) -> int | None:
    """Return the next offset that a consumer reads of a partition. None: that is not known yet, or the partition was just revoked."""
    try:
        async with asyncio.timeout(_POSITION_LIMIT_S):
            return int(await consumer.position(place))
    except (TimeoutError, IllegalStateError):
        return None
