"""The alerts topic: open incidents, messages that are not delivered, and how far the circuits topic was read.

It is compacted and has one partition. Everything that changes together is one transaction. A process that was paused can't write after
another one took over, because both have the same transactional id.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.enums import MAX_EVENT_BYTES
from switchgear_schemas.topics import TopicNames

_MARK: Final = "mark"
_OFFSET: Final = "offset:"
_LOAD_LIMIT_S: Final = 60.0
_START_LIMIT_S: Final = 30.0
_TRANSACTION_MS: Final = 20_000
_POLL_MS: Final = 500


class StateTopic:
    """Reads and writes the topic, as its only writer.

    Args:
        connection: The brokers.
        topics: The topic's name, and the transactional id.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames) -> None:
        self._connection = connection
        self._topic = topics.alerts
        self._producer: Any = AIOKafkaProducer(
            **connection.options(),
            transactional_id=topics.alerts_group,
            transaction_timeout_ms=_TRANSACTION_MS,
            max_request_size=4 * MAX_EVENT_BYTES,
            request_timeout_ms=10_000,
        )

    async def __aenter__(self) -> Self:
        """Become the only writer.

        Raises:
            KafkaError: No broker answers.
            TimeoutError: The broker did not let it write within the limit.
        """
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                await self._producer.start()
        except BaseException:
            await self._producer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self._producer.stop()

    async def load(self) -> tuple[dict[str, bytes], dict[int, int]]:
        """Return what is saved: values by key, and the next offset of each partition of the circuits topic.

        It writes a mark and reads up to it, so nothing that was committed is missed.

        Raises:
            KafkaError: The topic can't be read.
            TimeoutError: It was not read within a minute.
        """
        mark = uuid.uuid4().hex.encode()
        async with asyncio.timeout(_LOAD_LIMIT_S):
            await self._write({_MARK: mark})
            return _parted(await self._read_to(mark))

    async def save(self, changed: Mapping[str, bytes | None], offsets: Mapping[int, int]) -> None:
        """Write changes and offsets in one transaction.

        Raises:
            KafkaError: They were not written, or another process took over.
            TimeoutError: The brokers did not answer in time.
        """
        written: dict[str, bytes | None] = dict(changed)
        written |= {f"{_OFFSET}{partition}": msgspec.json.encode(offset) for partition, offset in offsets.items()}
        if written:
            async with asyncio.timeout(_TRANSACTION_MS / 1000):
                await self._write(written)

    async def _write(self, records: Mapping[str, bytes | None]) -> None:
        async with self._producer.transaction():
            sent = [
                await self._producer.send(self._topic, key=key.encode(), value=value, partition=0)
                for key, value in records.items()
            ]
            await asyncio.gather(*sent)  # the commit doesn't look at errors of records

    async def _read_to(self, mark: bytes) -> dict[str, bytes]:
        consumer = AIOKafkaConsumer(
            **self._connection.options(),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=4 * MAX_EVENT_BYTES,
        )
        found: dict[str, bytes] = {}
        try:
            await consumer.start()
            partition = TopicPartition(self._topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while True:
                for record in (await consumer.getmany(timeout_ms=_POLL_MS)).get(partition, ()):
                    key = (record.key or b"").decode(errors="replace")
                    if key == _MARK:
                        if record.value == mark:
                            return found
                    elif record.value is None:
                        found.pop(key, None)
                    else:
                        found[key] = record.value
        finally:
            await consumer.stop()


def _parted(found: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[int, int]]:
    offsets = {
        int(key.removeprefix(_OFFSET)): msgspec.json.decode(value, type=int)
        for key, value in found.items()
        if key.startswith(_OFFSET)
    }
    return {key: value for key, value in found.items() if not key.startswith(_OFFSET)}, offsets
