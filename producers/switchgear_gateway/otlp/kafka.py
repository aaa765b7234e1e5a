"""OTLP from Kafka: the topics ``otlp_spans`` and ``otlp_logs``, into which a collector's Kafka exporter writes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from switchgear.runtime.throttled_log import BoundedLog
from switchgear_gateway.bodies import MAX_BODY_BYTES
from switchgear_gateway.otlp.decoding import encoding_of
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.parts import UnreadableBodyError
from switchgear_gateway.otlp.submission import Sender, TryAgainError
from switchgear_schemas.connection import KafkaConnection

log: Final = logging.getLogger("switchgear.gateway.otlp")
_warnings: Final = BoundedLog(log)

SPANS_TOPIC: Final = "otlp_spans"
LOGS_TOPIC: Final = "otlp_logs"
_POLL_MS: Final = 500
_MOST_RECORDS: Final = 200
_PAUSE_S: Final = 1.0
"""How long to wait before a message that was not acknowledged is sent again."""
_MOST_UNCOMMITTED: Final = 1_000
"""Polls whose calls may wait at the same time."""


class _PollEnd(NamedTuple):
    """The end of a poll."""

    at: float
    """When all of it was taken, by the monotonic clock. Its calls that wait began to wait before."""
    offsets: dict[TopicPartition, int]


class OtlpTopics:
    """Consume a collector's topics. Offsets are committed when Kafka has acknowledged the executions.

    A message that can't be decoded is logged and skipped. Messages are protobuf (the collector's default) or JSON, one request each. A
    new group begins at the end of the topics, because old traces don't say how tools are now.

    Args:
        connection: The brokers.
        ingest: What takes the spans and records.
        sender: Under whose name the executions are sent.
        group: The consumer group.
        topics: Each topic, and whether it has ``spans`` or ``logs``.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        ingest: Ingest,
        sender: Sender,
        *,
        group: str,
        topics: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = connection
        self._ingest = ingest
        self._sender = sender
        self._group = group
        self._topics = dict(topics or {SPANS_TOPIC: "spans", LOGS_TOPIC: "logs"})
        self._uncommitted: deque[_PollEnd] = deque(maxlen=_MOST_UNCOMMITTED)
        self._assigned_at: dict[TopicPartition, float] = {}
        self._consumer: Any = None
        self.skipped = 0
        """How many messages could not be decoded."""

    async def run(self) -> None:
        """Consume until cancelled. Kafka's outages are logged and waited for.

        Raises:
            Exception: A defect. The owner of the task has to end the process.
        """
        while True:
            self._consumer = self._make_consumer()
            try:
                await self._consumer.start()
                self._consumer.subscribe(list(self._topics), listener=_Listener(self))
                while True:
                    await self._poll()
            except (KafkaError, OSError) as error:
                _warnings.warning("the OTLP topics can't be read", error)
                await asyncio.sleep(_PAUSE_S)
            finally:
                await self._consumer.stop()

    async def _poll(self) -> None:
        polled = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MOST_RECORDS)
        for partition, records in polled.items():
            await self._take_all(partition, records)
        if polled:
            ends = {partition: records[-1].offset + 1 for partition, records in polled.items()}
            self._uncommitted.append(_PollEnd(time.monotonic(), ends))
        await self.commit()

    async def _take_all(self, partition: TopicPartition, records: Sequence[Any]) -> None:
        for record in records:
            while partition in self._assigned_at:  # after a change of owner, the next one takes the rest
                try:
                    await self._take(partition, record)
                    break
                except TryAgainError as error:
                    await asyncio.sleep(max(_PAUSE_S, error.retry_after_s))

    async def _take(self, partition: TopicPartition, record: Any) -> None:
        # The owner before may have taken it and died before its commit.
        resent = record.timestamp < self._assigned_at[partition]
        try:
            body = record.value or b""
            take = self._ingest.logs if self._topics[partition.topic] == "logs" else self._ingest.traces
            await take(body, encoding_of(body), self._sender, resent=resent)
        except UnreadableBodyError as error:
            self.skipped += 1
            _warnings.warning(f"messages of {partition.topic} can't be decoded and are skipped", error)

    async def commit(self) -> None:
        """Commit what was acknowledged: the polls before the oldest call that still waits for a better span."""
        waiting_since = self._ingest.waiting_since
        offsets: dict[TopicPartition, int] = {}
        while self._uncommitted and (waiting_since is None or self._uncommitted[0].at < waiting_since):
            offsets |= self._uncommitted.popleft().offsets
        offsets = {partition: offset for partition, offset in offsets.items() if partition in self._assigned_at}
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError) as error:  # the partitions have another owner
            _warnings.warning("offsets of the OTLP topics could not be committed", error)

    def _make_consumer(self) -> Any:
        return AIOKafkaConsumer(
            **self._connection.options(),
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            max_partition_fetch_bytes=MAX_BODY_BYTES,
            fetch_max_bytes=2 * MAX_BODY_BYTES,
        )

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Note when this process became the owner of partitions."""
        now = time.time() * 1000
        self._assigned_at = {partition: self._assigned_at.get(partition, now) for partition in partitions}

    async def revoked(self) -> None:
        """Send what waits and commit, before other processes own the partitions."""
        await self._ingest.send_due(everything=True)
        await self.commit()
        self._uncommitted.clear()
        self._assigned_at.clear()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    def __init__(self, topics: OtlpTopics) -> None:
        self._topics = topics

    async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:  # noqa: ARG002 - it is always all
        await self._topics.revoked()

    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._topics.assigned(assigned)
