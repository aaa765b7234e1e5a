"""Read whole partitions of a topic up to their present end, outside any consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from switchgear_schemas import BrokerUnavailableError
from switchgear_schemas.connection import METADATA_MAX_AGE_MS
from switchgear_schemas.settings import Settings
from switchgear_schemas.unreadable import guard


async def read_to_end(
    settings: Settings,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    ends: Mapping[int, int] | None = None,
    timeout_s: float | None = 60.0,
) -> AsyncGenerator[ConsumerRecord[Any, Any], None]:
    """Yield every record of the partitions (all where none are given) that is there when the reading starts.

    Args:
        settings: the brokers.
        topic: an existing topic.
        partitions: numbers of the partitions.
        ends: by partition, an offset up to which there are records, or will be soon; their present ends where none are given.
        timeout_s: limit of the whole reading; null where the caller limits it.

    Raises:
        BrokerUnavailableError: the broker didn't give them within the limit.
    """
    consumer = AIOKafkaConsumer(
        **settings.kafka.options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 * 1_048_576,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
    )
    try:
        async with asyncio.timeout(timeout_s):
            await start(consumer)
            try:
                numbers = range(settings.topic_partitions) if partitions is None else partitions
                known = None if ends is None else {TopicPartition(topic, number): end for number, end in ends.items()}
                async for record in _until_end(consumer, [TopicPartition(topic, number) for number in numbers], known):
                    yield record
            finally:
                await consumer.stop()
    except (TimeoutError, KafkaError) as error:
        limit = "" if timeout_s is None else f" within {timeout_s:g} s"
        raise BrokerUnavailableError(
            f"The topic {topic} could not be read from {settings.kafka_bootstrap_servers}{limit} "
            f"({type(error).__name__}).",
            hint="See whether its broker is up.",
        ) from error


async def start(consumer: AIOKafkaConsumer) -> None:
    """Start a consumer without a group. aiokafka's own lets a ``CancelledError`` out of ``stop()`` where its task has not begun yet."""
    await consumer.start()
    guard(consumer)
    await asyncio.sleep(0)


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
        for records in (await consumer.getmany(*open_ends, timeout_ms=500)).values():
            for record in records:
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    yield record
        # By position, not by record: the last offsets of a compacted partition may hold nothing.
        for tp in list(open_ends):
            if await consumer.position(tp) >= open_ends[tp]:
                del open_ends[tp]
