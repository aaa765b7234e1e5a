"""Everything that the worker writes to Kafka."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import NodeNotReadyError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest, OffsetResetStrategy

from switchgear.fleet import Changes, Published, Rekeyed
from switchgear.fleet.log import dead_letter
from switchgear.fleet.rows import MARK
from switchgear_schemas import DeadLetter
from switchgear_schemas.dead_letter import refused_for_size, send_letters
from switchgear_schemas.enums import MAX_LETTER_BYTES
from switchgear_schemas.families import partition_key
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.settings import Settings

MAX_REQUEST_BYTES: Final = MAX_LETTER_BYTES
"""A dead letter is the largest record."""
BATCH_BYTES: Final = 524_288
COPY_REFUSED: Final = (
    "it is in another tool's partition, and the topic refuses a copy of it for its own one for its size"
)
START_S: Final = 8.0
ACKNOWLEDGE_S: Final = 30.0
"""Longest wait for the broker. A restarted worker folds its batch again, so giving up loses nothing."""


class Publisher:
    """Writes to the worker's topics, through two producers.

    Rows and circuit records go through an idempotent producer. Copies and dead letters go through a plain one. Their topic may refuse
    them for their size, and after a refusal aiokafka's idempotent producer can't write to that partition any more. If one is written
    twice, the fence skips the second copy, and the letters compact to one.

    Every ``async`` method returns when all in-sync replicas have the records. If they do not acknowledge, it raises ``TimeoutError`` or
    aiokafka's ``KafkaError``.
    """

    def __init__(self, settings: Settings) -> None:
        self._topics = settings.topics
        self._partitions = settings.topic_partitions
        self._pattern = settings.family_pattern
        self._producer = _producer(settings, idempotent=True)
        self._plain = _producer(settings, idempotent=False)
        self.circuit_ends: dict[int, int] = {}
        """By partition of the circuits topic, the last end that is known."""
        self._set_back = False

    async def start(self) -> None:
        """Connect both producers.

        Raises:
            TimeoutError: The broker did not answer within :data:`START_S`. A worker that gets SIGTERM must not wait longer.
        """
        async with asyncio.timeout(START_S):
            await self._producer.start()
            await self._plain.start()

    async def answers(self) -> bool:
        """Return whether a broker answers a request for metadata. The caller limits the wait."""
        return bool(await self._producer.client.force_metadata_update())

    async def leaders(self) -> dict[str, dict[int, int]]:
        """Return the leader of each partition, by topic of the worker. A topic that doesn't exist is left out, and not created.

        Raises:
            KafkaError: No broker answered, or it doesn't show a topic to this user. The caller limits the wait.
        """
        client, names = self._producer.client, self._topics
        node = client.get_random_node()
        if node is None:
            raise NodeNotReadyError("no broker is known")
        wanted = [names.executions, names.circuits, names.commands, names.dead, names.changelog]
        answer = await client.send(node, MetadataRequest(wanted, allow_auto_topic_creation=False))
        found: dict[str, dict[int, int]] = {}
        for topic in answer.to_object()["topics"]:
            error = for_code(topic["error_code"])
            if topic["partitions"]:
                found[topic["topic"]] = {part["partition"]: part["leader"] for part in topic["partitions"]}
            elif error is not UnknownTopicOrPartitionError:
                raise error(topic["topic"])
        return found

    async def ends(self, topic: str, leaders: Mapping[int, int]) -> dict[int, int]:
        """Return the offset after the last record of each partition. One whose leader is just changing is left out.

        Raises:
            KafkaError: A broker did not answer. The caller limits the wait.
        """
        found: dict[int, int] = {}
        for leader in {each for each in leaders.values() if each >= 0}:
            asked = [(number, OffsetResetStrategy.LATEST) for number, led_by in leaders.items() if led_by == leader]
            answer = await self._producer.client.send(leader, OffsetRequest(-1, 0, [(topic, asked)]))
            for _topic, parts in answer.topics:
                found |= {number: offset for number, code, _time, offset in parts if not code}
        return found

    def heard(self, ends: Mapping[int, int]) -> None:
        """Note what a broker said about the ends of the circuits topic."""
        self.circuit_ends |= ends

    def take_set_back(self) -> bool:
        """Return whether the circuits topic has given an offset a second time since the last call: it was created again."""
        found, self._set_back = self._set_back, False
        return found

    async def stop(self, timeout_s: float = 3.0) -> None:
        """Disconnect. Nothing is lost if the broker does not answer: every write was awaited."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(self._producer.stop(), self._plain.stop())

    async def rows(self, partition: int, rows: Iterable[tuple[bytes, bytes | None]]) -> int:
        """Write one or more rows to one partition of the changelog, in their order. A row without a value is a tombstone.

        Returns:
            The offset of the first row. It is negative if the rows do not follow each other, or if the broker had them already.
        """
        sent: list[asyncio.Future[Any]] = []
        counts: list[int] = []
        async with asyncio.timeout(ACKNOWLEDGE_S):
            batch = self._producer.create_batch()
            for key, value in rows:
                if batch.append(timestamp=None, key=key, value=value) is None:
                    counts.append(batch.record_count())
                    sent.append(await self._producer.send_batch(batch, self._topics.changelog, partition=partition))
                    batch = self._producer.create_batch()
                    batch.append(timestamp=None, key=key, value=value)
            if batch.record_count():
                counts.append(batch.record_count())
                sent.append(await self._producer.send_batch(batch, self._topics.changelog, partition=partition))
            written = await asyncio.gather(*sent)
        first = expected = int(written[0].offset)
        for count, batch_written in zip(counts, written, strict=True):
            if batch_written.offset < 0 or batch_written.offset != expected:
                return -1
            expected += count
        return first

    async def marks(self, partitions: Iterable[int]) -> dict[int, int]:
        """Write a mark to each of these partitions of the changelog, and return the offset of each.

        Every row in front of a mark can be read. The end offset that a broker returns can be too low, because a new
        leader returns the high watermark that it knew as a follower. KIP-207 corrects this; aiokafka's version of the request lacks it.
        """
        async with asyncio.timeout(ACKNOWLEDGE_S):
            sent = {
                partition: await self._send(self._topics.changelog, key=MARK, value=None, partition=partition)
                for partition in partitions
            }
            await asyncio.gather(*sent.values())
        return {partition: int(mark.result().offset) for partition, mark in sent.items()}

    async def outputs(self, changes: Changes) -> list[DeadLetter]:
        """Write the circuit records, copies and dead letters of ``changes``.

        A copy that its topic refuses for its size becomes a dead letter in ``changes``.

        Returns:
            The dead letters that their topic refuses even without a value.
        """
        async with asyncio.timeout(ACKNOWLEDGE_S):
            sent = [await self._circuit(published) for published in changes.circuits]
            self._note(await asyncio.gather(*sent))
            refused = await refused_for_size(changes.rekeyed, self._rekeyed)
            changes.dead += [dead_letter(copy.record, "", COPY_REFUSED) for copy in refused]
            return await send_letters(self._plain, self._topics.dead, changes.dead)

    def _note(self, written: Iterable[Any]) -> None:
        """Note the offsets of circuit records. They are negative if the broker had the records already."""
        for record in written:
            if 0 <= record.offset < self.circuit_ends.get(record.partition, 0):
                self._set_back = True
            if record.offset >= 0:
                self.circuit_ends[record.partition] = record.offset + 1

    async def _circuit(self, published: Published) -> asyncio.Future[Any]:
        return await self._send(
            self._topics.circuits,
            key=published.circuit_id.encode(),
            value=published.value,
            partition=partition_of(published.tool_name, self._partitions, self._pattern),
        )

    async def _rekeyed(self, copy: Rekeyed) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await self._plain.send(
            copy.topic,
            key=partition_key(copy.tool_name, self._pattern).encode(),
            value=copy.value,
            partition=partition_of(copy.tool_name, self._partitions, self._pattern),
            headers=copy.headers,
        )
        return sent

    async def _send(self, topic: str, **record: Any) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await self._producer.send(topic, **record)
        return sent


def _producer(settings: Settings, *, idempotent: bool) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        **settings.kafka.options(),
        acks="all",
        enable_idempotence=idempotent,
        linger_ms=0,
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_REQUEST_BYTES,
    )


def by_partition(changes: Changes, partitions: int, family_pattern: str) -> dict[int, list[tuple[bytes, bytes | None]]]:
    """Return the rows of ``changes`` by the partition of the changelog that each belongs to."""
    found: dict[int, list[tuple[bytes, bytes | None]]] = defaultdict(list)
    for key, (tool_name, value) in changes.rows.items():
        found[partition_of(tool_name, partitions, family_pattern)].append((key, value))
    return found
