"""Offset commits written by hand, as a process that died leaves them."""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from switchgear_schemas.settings import Settings


async def commit_by_hand(settings: Settings, offsets: Mapping[int, tuple[int, str]]) -> None:
    """Commit ``{partition: (offset, metadata)}`` of the executions topic for the sinks' group, which must be empty."""
    consumer = AIOKafkaConsumer(
        **settings.kafka.options(), group_id=settings.topics.sink_group, enable_auto_commit=False
    )
    partitions = {TopicPartition(settings.topics.executions, each): at for each, at in offsets.items()}
    consumer.assign(list(partitions))
    await consumer.start()
    try:
        await consumer.commit({each: OffsetAndMetadata(*at) for each, at in partitions.items()})
    finally:
        await consumer.stop()


async def rewind(settings: Settings) -> None:
    """Set the sinks' group back to the beginning."""
    await commit_by_hand(settings, dict.fromkeys(range(settings.topic_partitions), (0, "")))
