"""Feeding the topics and running a writer, for tests of the sink."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer import Writer, WriterLimits, WriterMetrics
from tests.support.limits import HAPPEN_S
from tests.support.records import execution

QUICK = WriterLimits(batch_rows=2_000, batch_age_s=0.05)
WAIT_S = HAPPEN_S


@dataclass
class Message:
    """A record to send. Without a partition it goes to the owner of its key."""

    value: bytes | None
    key: bytes | None = b"search"
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    partition: int | None = None


async def produce(
    settings: Settings, messages: Iterable[Message], topic: str | None = None, *, compression: str | None = None
) -> list[tuple[int, int]]:
    """Send records, wait for the broker, and return the partition and offset of each."""
    producer = AIOKafkaProducer(
        **settings.kafka.options(), acks="all", enable_idempotence=True, linger_ms=10, max_batch_size=512 * 1024,
        max_request_size=64 * 1024 * 1024, compression_type=compression,
    )  # fmt: skip
    await producer.start()
    try:
        sent = []
        for each in messages:
            partition = each.partition
            if partition is None and each.key:
                partition = owner_partition(each.key.decode(), settings.topic_partitions)
            sent.append(
                await producer.send(
                    topic or settings.topics.executions,
                    each.value,
                    key=each.key,
                    partition=partition,
                    headers=each.headers,
                )
            )
        await producer.flush()
        return [(done.partition, done.offset) for done in [await each for each in sent]]
    finally:
        await producer.stop()


def load(count: int) -> list[Message]:
    """Return executions of twenty tools."""
    return [Message(execution(f"tool-{place % 20}"), f"tool-{place % 20}".encode()) for place in range(count)]


async def read_topic(settings: Settings, topic: str) -> list[Any]:
    """Return every record that is in ``topic`` now."""
    consumer = AIOKafkaConsumer(
        **settings.kafka.options(), enable_auto_commit=False, max_partition_fetch_bytes=8 * 1024 * 1024
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, each) for each in range(settings.topic_partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        found = []
        async with asyncio.timeout(WAIT_S):
            while any([await consumer.position(each) < end for each, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
        return found
    finally:
        await consumer.stop()


async def dead_letters(settings: Settings) -> dict[tuple[int, int], DeadLetter]:
    """Return the dead letters by the partition and offset of their origin, as after compaction."""
    found = [
        DeadLetter.from_record(each.value, each.headers) for each in await read_topic(settings, settings.topics.dead)
    ]
    return {(each.partition, each.offset): each for each in found}


async def until(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = WAIT_S) -> None:
    """Poll until ``condition`` holds."""
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not {what} after {limit_s} s"
        await asyncio.sleep(0.05)


@dataclass
class Sinking:
    """A running writer."""

    store: Store
    writer: Writer
    registry: CollectorRegistry
    task: asyncio.Task[None]

    async def scalar(self, sql: str) -> Any:
        return (await self.store.query(sql)).result_rows[0][0]

    async def rows(self, sql: str) -> list[Any]:
        return list((await self.store.query(sql)).result_rows)

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def lag(self, settings: Settings) -> float:
        """Return the lag in the executions topic, as /metrics shows it."""
        return sum(
            self.metric("switchgear_sink_lag", topic=settings.topics.executions, partition=str(number))
            for number in range(settings.topic_partitions)
        )

    async def until_caught_up(self, settings: Settings) -> None:
        """Wait until the metrics show no lag."""

        async def reached() -> bool:
            assert not self.task.done()
            return self.lag(settings) == 0

        await until(reached, "without lag")

    @property
    def idle(self) -> bool:
        """No batch waits or is being inserted. A row is visible a moment before its rollups."""
        assignment = self.writer.assignment
        return assignment is not None and not assignment.held_bytes

    async def until_count(self, count: int, table: str = "tool_metrics", limit_s: float = WAIT_S) -> None:
        async def reached() -> bool:
            if self.task.done():
                self.task.result()
            return int(await self.scalar(f"SELECT count() FROM {table}")) >= count and self.idle

        await until(reached, f"{count} rows in {table}", limit_s)

    async def until_committed(self, settings: Settings, limit_s: float = WAIT_S) -> None:
        """Wait until the group has committed to the end of both topics, with nothing pending."""

        async def reached() -> bool:
            if self.task.done():
                self.task.result()
            return await fully_committed(settings)

        await until(reached, "fully committed", limit_s)


async def fully_committed(settings: Settings) -> bool:
    """Return whether the sinks' group has committed to the end of both topics, with nothing pending."""
    from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415 - slow to import

    topics = (settings.topics.executions, settings.topics.circuits)
    partitions = [TopicPartition(topic, each) for topic in topics for each in range(settings.topic_partitions)]
    consumer = AIOKafkaConsumer(**settings.kafka.options())
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await consumer.start()
    await admin.start()
    try:
        ends = {each: end for each, end in (await consumer.end_offsets(partitions)).items() if end}
        found = await admin.list_consumer_group_offsets(settings.topics.sink_group)
        return all(
            each in found and found[each].offset >= end and not found[each].metadata for each, end in ends.items()
        )
    except GroupCoordinatorNotAvailableError:  # a new broker has none until its first group asks
        return False
    finally:
        await admin.close()
        await consumer.stop()


@asynccontextmanager
async def sinking(
    settings: Settings,
    store: Store | None = None,
    limits: WriterLimits = QUICK,
    instance_id: str | None = None,
    *,
    rewind: bool = False,
) -> AsyncIterator[Sinking]:
    """Run a writer in this process, with ``store`` or the store of the settings. Stop it at the end, and raise its failure."""
    own = await open_store(settings) if store is None else None
    used = store or own
    assert used is not None
    try:
        await migrate(used)
        registry = CollectorRegistry()
        writer = Writer(
            used,
            settings.kafka,
            settings.topics,
            WriterMetrics(registry),
            limits=limits,
            instance_id=instance_id,
            rewind=rewind,
        )
        task = asyncio.create_task(writer.run())
        try:
            yield Sinking(used, writer, registry, task)
        finally:
            writer.stop()
            async with asyncio.timeout(HAPPEN_S):
                await task
    finally:
        if own is not None:
            await own.close()


_SUMS = "calls, successes, errors, timeouts, rejections, callers, cancelled, cancelled_us, duration, input"
_CALLER = "status IN ('error', 'timeout') AND error_class IN ('auth', 'invalid_input', 'policy', 'tool')"
_SUCCEEDED = "status = 'success' AND error_class != 'policy'"
_JUDGED = f"status NOT IN ('rejected', 'cancelled') AND NOT ({_CALLER}) AND error_class != 'policy'"
_US = "toUInt64(round(execution_time_ms * 1000))"
_RAW_SUMS = f"""count() AS calls, countIf({_SUCCEEDED}) AS successes, countIf(status = 'error') AS errors,
    countIf(status = 'timeout') AS timeouts, countIf(status = 'rejected') AS rejections, countIf({_CALLER}) AS callers,
    countIf(status = 'cancelled') AS cancelled, sumIf({_US}, status = 'cancelled') AS cancelled_us,
    sumIf({_US}, {_JUDGED}) AS duration, sum(input_size) AS input"""
_ROLLED_SUMS = """sum(calls) AS calls, sum(successes) AS successes, sum(errors) AS errors,
    sum(timeouts) AS timeouts, sum(rejections) AS rejections, sum(caller_errors) AS callers, sum(cancellations) AS cancelled,
    sum(cancelled_us_sum) AS cancelled_us, sum(duration_us_sum) AS duration, sum(input_size_sum) AS input"""
_STATES = """sumMerge(`sum(calls)`) AS calls, sumMerge(`sum(successes)`) AS successes, sumMerge(`sum(errors)`) AS errors,
    sumMerge(`sum(timeouts)`) AS timeouts, sumMerge(`sum(rejections)`) AS rejections,
    sumMerge(`sum(caller_errors)`) AS callers, sumMerge(`sum(cancellations)`) AS cancelled,
    sumMerge(`sum(cancelled_us_sum)`) AS cancelled_us,
    sumMerge(`sum(duration_us_sum)`) AS duration, sumMerge(`sum(input_size_sum)`) AS input"""


def _projection(table: str, name: str) -> str:
    """Return a query of the projection itself. A query of the table might not use it."""
    return f"mergeTreeProjection(currentDatabase(), '{table}', '{name}')"


def _counts_differ(what: str, start: str, time: str, columns: str, source: str) -> str:
    return f"""
SELECT '{what}' AS what, count() AS differing FROM
(
    SELECT tenant, tool_name, {start}(toDateTime(recorded_at, 'UTC')) AS since, {_RAW_SUMS}
    FROM tool_metrics GROUP BY tenant, tool_name, since
) AS raw
FULL OUTER JOIN (SELECT tenant, tool_name, {time} AS since, {columns} FROM {source} GROUP BY tenant, tool_name, since) AS rolled
USING (tenant, tool_name, since)
WHERE ({", ".join(f"raw.{each}" for each in _SUMS.split(", "))}) != ({", ".join(f"rolled.{each}" for each in _SUMS.split(", "))})
"""


def _copies_differ(what: str, condition: str, source: str, rows: str = "count()") -> str:
    return f"""
SELECT '{what}', abs(toInt64((SELECT count() FROM tool_metrics WHERE {condition})) - toInt64((SELECT {rows} FROM {source})))
"""


_FAILED = "status IN ('error', 'timeout')"
_SLOW = "status != 'rejected' AND execution_time_ms > 5000"
ROLLUPS_DIFFER = "UNION ALL".join(
    (
        _counts_differ("counts", "toStartOfMinute", "minute", _ROLLED_SUMS, "tool_counts_1m"),
        _counts_differ(
            "counts in time order",
            "toStartOfMinute",
            "minute",
            _ROLLED_SUMS,
            _projection("tool_counts_1m", "by_minute"),
        ),
        _counts_differ(
            "counts by the hour",
            "toStartOfHour",
            "`toStartOfHour(minute)`",
            _STATES,
            _projection("tool_counts_1m", "per_hour"),
        ),
        f"""
SELECT 'histograms', count() FROM
(
    SELECT tool_name, sumMap(map(toInt16(floor(log2(greatest(execution_time_ms, exp2(-20))) * 8)), toUInt64(1))) AS buckets
    FROM tool_metrics WHERE {_JUDGED} GROUP BY tool_name
) AS raw
FULL OUTER JOIN (SELECT tool_name, sumMap(buckets) AS buckets FROM tool_latency_15m GROUP BY tool_name) AS rolled
USING tool_name
WHERE raw.buckets != rolled.buckets
""",
        _copies_differ("errors", _FAILED, "tool_errors"),
        _copies_differ("errors by tool", _FAILED, _projection("tool_errors", "by_tool")),
        _copies_differ("slow calls", _SLOW, "tool_slow_calls"),
        _copies_differ("slow calls by duration", _SLOW, _projection("tool_slow_calls", "by_duration")),
        _copies_differ("error types", f"{_FAILED} AND NOT ({_CALLER})", "tool_error_types_15m", "sum(errors)"),
        _copies_differ("caller errors", _CALLER, "tool_caller_errors_15m", "sum(errors)"),
    )
)
"""Compares rollups and projections with the raw rows. Every ``differing`` must be 0."""


async def rollups_differ(store: Store) -> dict[str, int]:
    """Return the rollups that differ from the raw rows, with the number of differences; empty if all agree."""
    found = (await store.query(ROLLUPS_DIFFER)).result_rows
    assert len(found) == ROLLUPS_DIFFER.count("UNION ALL") + 1
    return {what: int(places) for what, places in found if places}


async def assert_exact(store: Store, count: int) -> None:
    """Assert that there are ``count`` rows, each with its own place and id, and that the rollups agree with them."""
    found = await store.query(
        "SELECT count(), uniqExact(kafka_partition, kafka_offset), uniqExact(metric_id) FROM tool_metrics"
    )
    assert tuple(found.result_rows[0]) == (count, count, count)
    assert await rollups_differ(store) == {}
