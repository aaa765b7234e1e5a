"""A connected aiokafka producer, and the batches in flight through it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from switchgear.runtime.background_thread import clean_up
from switchgear.runtime.fork import importing
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError

log: Final = logging.getLogger("switchgear.emitter")

BATCH_BYTES: Final = 786_432
"""Size of a batch. It is below Kafka's default limit of a topic (1 MiB; ours have 4), so a record that is too large is alone in its batch.

Larger batches are cheaper, because each batch has a fixed cost.
"""
MOST_IN_FLIGHT: Final = 20
"""Batches in flight to all brokers. Each has a record of 4 MiB at most, so a request is below the 100 MiB that brokers accept
(``socket.request.max.bytes``)."""
_CONNECT_LIMIT_S: Final = 20.0
_IDLE_LIMIT_S: Final = 60.0


class Link:
    """One producer, with its own producer id and sequence numbers."""

    def __init__(self, producer: Any, topic: str) -> None:
        self.producer = producer
        self.slots = asyncio.Semaphore(MOST_IN_FLIGHT)
        """Hold one while a batch is in flight."""
        self._topic = topic

    async def learn(self) -> None:
        """Have the client read the topic's partitions.

        Raises:
            BrokerUnavailableError: The topic does not exist.
        """
        # This asks for all topics: asking for one by name would wait for it, and may create it with the broker's defaults.
        known = await self.producer.client.fetch_all_metadata()
        if self._topic not in known.topics():
            raise BrokerUnavailableError(
                f"The topic {self._topic} does not exist, or this Kafka user may not see it.",
                hint="Run `switchgear topics ensure`, or allow the user the operation Write there.",
            )
        await self.producer.partitions_for(self._topic)

    def partitions(self) -> int:
        """Return the number of the topic's partitions by the newest metadata, or 0 if they don't have the topic."""
        return len(self.producer.client.cluster.partitions_for_topic(self._topic) or ())

    async def close_when_idle(self) -> None:
        """Close when the last batch has its answer, or after a minute."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_LIMIT_S):
                for _ in range(MOST_IN_FLIGHT):
                    await self.slots.acquire()
        await self.close(5.0)

    async def close(self, limit_s: float) -> None:
        """Close within ``limit_s`` seconds. aiokafka's own stop waits indefinitely for a broker that is gone."""
        if not await clean_up(self.producer.stop(), limit_s, "closing a producer"):
            await clean_up(self.producer.client.close(), limit_s, "closing a producer's connections")


async def open_link(connection: KafkaConnection, topic: str, *, compression: str | None) -> Link:
    """Connect, get a producer id, and read the topic's partitions.

    Raises:
        BrokerUnavailableError: No broker answered in time, or the topic does not exist.
        SwitchgearError: The user may not write to the topic.
    """
    with importing:
        from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - costs 100 ms that an import of switchgear must not

        import switchgear_schemas.partitioner  # noqa: PLC0415, F401 - the outbox needs it next

    producer = AIOKafkaProducer(
        **connection.options(),
        acks="all",
        enable_idempotence=True,
        max_batch_size=BATCH_BYTES,
        max_request_size=2**31 - 1,  # applies to send() only; the outbox builds and bounds our batches
        compression_type=compression,
        request_timeout_ms=15_000,
        retry_backoff_ms=100,
    )
    link = Link(producer, topic)
    try:
        async with asyncio.timeout(_CONNECT_LIMIT_S):
            await producer.start()
            await link.learn()
    except BaseException as error:
        with contextlib.suppress(asyncio.CancelledError):
            await link.close(1.0)
        if isinstance(error, TimeoutError):
            raise BrokerUnavailableError(f"no answer within {_CONNECT_LIMIT_S:g} s") from error
        missing = connection.missing_permission(error, "Write", topic)
        if missing is not None:
            raise missing from error
        raise
    return link
