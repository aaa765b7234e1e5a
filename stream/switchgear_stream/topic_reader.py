"""Reading topics outside any consumer group: whole partitions, a part of one, or only the offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from switchgear_schemas import BrokerUnavailableError
from switchgear_schemas.connection import METADATA_MAX_AGE_MS
from switchgear_schemas.settings import Settings
from switchgear_schemas.unreadable import guard

FETCH_BYTES: Final = 4 * 1_048_576
POLL_MS: Final = 500


async def read_to_end(
    settings: Settings,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    ends: Mapping[int, int] | None = None,
    timeout_s: float | None = 60.0,
) -> AsyncGenerator[ConsumerRecord[Any, Any], None]:
    """Yield every record of the partitions that is there when reading starts.

    Args:
        settings: The brokers.
        topic: An existing topic.
        partitions: Numbers of the partitions; None for all.
        ends: By partition, the offset to read up to; None for the present ends.
        timeout_s: Limit of the whole reading; None if the caller limits it.

    Raises:
        BrokerUnavailableError: The broker did not deliver them within the limit.
    """
    numbers = range(settings.topic_partitions) if partitions is None else partitions
    assigned = [TopicPartition(topic, number) for number in numbers]
    known = None if ends is None else {TopicPartition(topic, number): end for number, end in ends.items()}
    try:
        async with asyncio.timeout(timeout_s), _started(settings) as consumer:
            async for record in _until_end(consumer, assigned, known):
                yield record
    except (TimeoutError, KafkaError) as error:
        limit = "" if timeout_s is None else f" within {timeout_s:g} s"
        raise BrokerUnavailableError(
            f"The topic {topic} could not be read from {settings.kafka_bootstrap_servers}{limit} "
            f"({type(error).__name__}).",
            hint="Check that its broker is up.",
        ) from error


async def read_bounds(
    settings: Settings, places: list[TopicPartition], *, timeout_s: float
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first offset of each partition, and the offset after its last record.

    Raises:
        TimeoutError, KafkaError: The broker did not answer within the limit.
    """
    async with asyncio.timeout(timeout_s), _started(settings) as consumer:
        return await consumer.beginning_offsets(places), await consumer.end_offsets(places)


class PartitionReader:
    """Reads parts of one partition, over one connection.

    Args:
        consumer: A started consumer.
        place: The partition.
    """

    def __init__(self, consumer: AIOKafkaConsumer, place: TopicPartition) -> None:
        self._consumer = consumer
        self._place = place
        consumer.assign([place])

    async def offset_at(self, timestamp_ms: int) -> int | None:
        """Return the first offset that the broker appended then or later; None if there is none."""
        found = (await self._consumer.offsets_for_times({self._place: timestamp_ms}))[self._place]
        return None if found is None else int(found.offset)

    async def records(self, first: int, end: int) -> AsyncIterator[list[ConsumerRecord[Any, Any]]]:
        """Yield the records from offset ``first`` up to ``end`` (excluded). Records that retention removed are skipped."""
        if first >= end:
            return
        self._consumer.seek(self._place, first)
        # By position, not by record: the last offsets may hold nothing (markers of transactions).
        while await self._consumer.position(self._place) < end:
            for records in (await self._consumer.getmany(self._place, timeout_ms=POLL_MS)).values():
                yield [record for record in records if record.offset < end]


@asynccontextmanager
async def open_partition(settings: Settings, topic: str, partition: int) -> AsyncIterator[PartitionReader]:
    """Connect a :class:`PartitionReader` to one partition of an existing topic."""
    async with _started(settings) as consumer:
        yield PartitionReader(consumer, TopicPartition(topic, partition))


@asynccontextmanager
async def _started(settings: Settings) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        **settings.kafka.options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
    )
    try:
        await consumer.start()
        guard(consumer)
        await asyncio.sleep(0)  # aiokafka's stop() raises CancelledError if its task has not begun yet
        yield consumer
    finally:
        await consumer.stop()


async def _until_end(
    consumer: AIOKafkaConsumer, assigned: list[TopicPartition], known: dict[TopicPartition, int] | None
) -> AsyncIterator[ConsumerRecord[Any, Any]]:
    if not assigned:
        return
    consumer.assign(assigned)
    ends = await consumer.end_offsets(assigned) if known is None else known
    starts = await consumer.beginning_offsets(assigned)
    open_ends = {tp: end for tp, end in ends.items() if end > starts[tp]}
    while open_ends:
        for records in (await consumer.getmany(*open_ends, timeout_ms=POLL_MS)).values():
            for record in records:
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    yield record
        # By position, not by record: the last offsets of a compacted partition may hold nothing.
        for tp in list(open_ends):
            if await consumer.position(tp) >= open_ends[tp]:
                del open_ends[tp]
