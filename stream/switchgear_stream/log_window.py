"""A window of one partition, read back outside any consumer group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from switchgear_schemas.settings import Settings
from switchgear_stream.topic_reader import start

FETCH_BYTES: Final = 4 * 1_048_576


class LogWindow:
    """Reads records that the worker has seen before; one connection for its life, made with ``async with``.

    Args:
        settings: the brokers.
        topic: an existing topic.
        partition: its number.
    """

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self._place = TopicPartition(topic, partition)
        self._consumer = AIOKafkaConsumer(
            **settings.kafka.options(),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH_BYTES,
        )

    async def __aenter__(self) -> Self:
        try:
            await start(self._consumer)
        except BaseException:
            await self._consumer.stop()
            raise
        self._consumer.assign([self._place])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def offset_at(self, timestamp_ms: int) -> int | None:
        """The first record that the broker appended then or later; null where there is none."""
        found = (await self._consumer.offsets_for_times({self._place: timestamp_ms}))[self._place]
        return None if found is None else int(found.offset)

    async def records(self, first: int, end: int) -> AsyncIterator[list[ConsumerRecord[Any, Any]]]:
        """Records with offsets from ``first`` up to ``end``, the latter not included, as the broker gives them.

        What retention has removed from the front is passed over.
        """
        if first >= end:
            return
        self._consumer.seek(self._place, first)
        # By position, not by record: the last offsets may hold nothing (markers of transactions).
        while await self._consumer.position(self._place) < end:
            for records in (await self._consumer.getmany(self._place, timeout_ms=500)).values():
                yield [record for record in records if record.offset < end]
