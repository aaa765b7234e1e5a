"""Rows a second from Kafka to ClickHouse, against bare ``raw_insert`` of the same bytes in the same run.

    python -m tests.bench.sink [EVENTS] [ROUNDS] [PARTITIONS] [BATCH_ROWS]

Both sides insert into the same tables with the same views and settings. ``bare`` is one insert after another from blocks that
were joined beforehand: no Kafka, no decoding, no commits; ``2 at once`` uses both of the sink's writing threads. The plain ways
(:mod:`.sink_plain`) take the same bytes from memory, without Kafka either, in the same batches. The ways take turns, round by round, so
that a machine that is busy with something else is so for all of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import resource
import statistics
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer import Writer, WriterLimits, WriterMetrics
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from tests.bench.sink_plain import PLAIN, Insert
from tests.support.kafka import running_kafka
from tests.support.sinking import Message, produce

ROWS = "switchgear_sink_rows_total"
CHUNK = 50_000


def events(count: int) -> list[bytes]:
    """Return calls of 96 tools as the emitter writes them. One in twenty failed."""
    chance, now = random.Random(1), datetime.now(UTC)
    found = []
    for place in range(count):
        failed = place % 20 == 0
        fields = {
            "metric_id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "tool_name": f"tool-{place % 96}",
            "user_id": f"user-{place % 500}",
            "session_id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "request_id": f"request-{place}",
            "status": "error" if failed else "success",
            "execution_time_ms": round(chance.lognormvariate(5, 1), 3),
            "parameters_hash": f"{chance.getrandbits(64):016x}",
            "input_size": place % 1_000,
            "output_size": place % 5_000,
            "emitter_id": "planner@host-4711-1f3a",
            "service": "planner",
            "recorded_at": (now - timedelta(milliseconds=place)).isoformat(),
        }
        if failed:
            fields |= {"error_type": "TimeoutError", "error_message": "no answer within 30 s", "error_class": "timeout"}
        found.append(json.dumps(fields, separators=(",", ":")).encode())
    return found


def blocks(values: list[bytes], rows: int, partition: int) -> list[bytes]:
    """Return the bytes that the sink inserts: rows with their coordinates, joined."""
    stamp = int(time.time())
    found = []
    for start in range(0, len(values), rows):
        spliced = (
            b'{"kafka_partition":%d,"kafka_offset":%d,"kafka_timestamp":%d.000,%b'
            % (partition, start + place, stamp, value[1:])
            for place, value in enumerate(values[start : start + rows])
        )
        found.append(b"\n".join(spliced))
    return found


class Way:
    """The rows per second and CPU microseconds per row of each round."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rates: list[float] = []
        self.cpu: list[float] = []

    def add(self, rows: float, wall_s: float, cpu_s: float) -> None:
        """Add a round."""
        self.rates.append(rows / wall_s)
        self.cpu.append(cpu_s / rows * 1e6)

    def over(self, other: Way) -> float:
        """Return the median over the rounds of this rate divided by the other's."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))

    def __str__(self) -> str:
        return f"{self.name:<28}{statistics.median(self.rates):>10,.0f} rows/s {statistics.median(self.cpu):>6.1f} CPU-us a row"


async def bare(way: Way, store: Store, ready: list[bytes], count: int, at_once: int) -> None:
    """Run ``raw_insert`` alone, ``at_once`` at a time."""
    waiting = asyncio.Semaphore(at_once)

    async def insert(block: bytes) -> None:
        async with waiting:
            token = {"insert_deduplication_token": uuid.uuid4().hex}
            await store.raw_insert("tool_metrics", block, settings=INSERT_SETTINGS | token)

    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(insert(block) for block in ready))
    way.add(count, time.perf_counter() - started, time.process_time() - cpu)


async def plain(way: Way, store: Store, insert: Insert, values: list[bytes], rows: int) -> None:
    """Run one of the plain ways, with the sink's batches."""

    def work() -> None:
        client = store.connect()
        try:
            for start in range(0, len(values), rows):
                insert(client, values[start : start + rows], start)
        finally:
            client.close()

    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.to_thread(work)
    way.add(len(values), time.perf_counter() - started, time.process_time() - cpu)


async def sink(way: Way, store: Store, settings: Settings, count: int, rows: int) -> None:
    """Run the writer, from the first stored batch to the last."""
    registry = CollectorRegistry()
    writer = Writer(
        store,
        settings.kafka,
        settings.topics,
        WriterMetrics(registry),
        limits=WriterLimits(batch_rows=rows),
        instance_id="bench",
    )
    task = asyncio.create_task(writer.run())
    first: tuple[float, float, float] | None = None
    while (stored := registry.get_sample_value(ROWS, {"table": "tool_metrics"}) or 0.0) < count:
        if first is None and stored:
            first = (time.perf_counter(), time.process_time(), stored)
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    assert first is not None, "everything was one batch: take more events"
    way.add(count - first[2], time.perf_counter() - first[0], time.process_time() - first[1])
    writer.stop()
    await task


async def main(count: int = 200_000, rounds: int = 3, partitions: int = 6, rows: int = 20_000) -> None:
    """Print one line per way, and the ratios."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    values = events(count)
    ready = blocks(values, rows, partition=1_000)
    landed, alone, both = Way("Kafka to ClickHouse"), Way("bare raw_insert"), Way("bare raw_insert, 2 at once")
    others = {name: Way(name) for name in PLAIN}
    with tempfile.TemporaryDirectory() as folder, running_kafka() as kafka:
        settings = kafka.settings(clickhouse_url=f"chdb:{Path(folder) / 'clickhouse'}", topic_partitions=partitions)
        await ensure_topics(settings)
        async with await open_store(settings) as store:
            await migrate(store)
            await bare(Way("warm"), store, ready[:3], 3 * rows, 1)
            for _ in range(rounds):
                for start in range(0, count, CHUNK):
                    part = values[start : start + CHUNK]
                    keyed = (
                        Message(value, f"tool-{(start + place) % 96}".encode()) for place, value in enumerate(part)
                    )
                    await produce(settings, keyed)
                await bare(alone, store, ready, count, 1)
                await sink(landed, store, settings, count, rows)
                await bare(both, store, ready, count, 2)
                for name, insert in PLAIN.items():
                    await plain(others[name], store, insert, values[: count // 4], rows)
    print(
        f"{rounds} rounds of {count} events of {len(values[0])} bytes, {partitions} partitions, batches of {rows} rows; medians"
    )
    print(alone, both, landed, *others.values(), sep="\n")
    print(f"ratio {landed.over(alone):.2f} of bare, {landed.over(both):.2f} of bare with 2 at once")
    print(*(f"{landed.over(way):.1f} times {name}" for name, way in others.items()), sep=", ")
    print(
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB (the bench's own events included)"
    )


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
