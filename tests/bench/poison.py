"""What bad rows cost the sink: rows a second with one bad event in a thousand against none, in the same run.

    python -m tests.bench.poison [EVENTS] [ROUNDS] [EVERY]

Two kinds of bad: ``contract`` breaks the schema and is found before the insert. ``repeated`` names a field twice, which is legal
JSON that only ClickHouse refuses; it is repaired and stored. The ways take turns, round by round.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer import Writer, WriterLimits, WriterMetrics
from tests.bench.sink import ROWS, Way, events
from tests.support.kafka import running_kafka
from tests.support.sinking import Message, fully_committed, produce

CHUNK = 50_000
KINDS = ("clean", "contract", "repeated")
LETTERS = "switchgear_sink_dead_letters_total"


def spoiled(kind: str, values: list[bytes], every: int) -> list[bytes]:
    """Return the events with one bad event in ``every``."""
    found = list(values)
    for place in range(every // 2, len(values), every):
        value = values[place]
        if kind == "contract":
            found[place] = value.replace(b'"status":"', b'"status":"no such ')
        elif kind == "repeated":
            found[place] = value.replace(b"{", b'{"tool_name":"first",', 1)
    return found


async def drain(way: Way, store: Store, settings: Settings, count: int, bad: int) -> None:
    """Measure a writer from its first stored batch to its last. Check that every event is a row or a dead letter."""
    registry = CollectorRegistry()
    writer = Writer(
        store,
        settings.kafka,
        settings.topics,
        WriterMetrics(registry),
        limits=WriterLimits(batch_rows=20_000),
        instance_id="bench",
    )

    def done() -> tuple[float, float]:
        stored = registry.get_sample_value(ROWS, {"table": "tool_metrics"}) or 0.0
        return stored, registry.get_sample_value(LETTERS, {"topic": settings.topics.executions}) or 0.0

    task = asyncio.create_task(writer.run())
    while not writer.ready:  # noqa: ASYNC110 - a flag, no event
        await asyncio.sleep(0.005)
    started, cpu = time.perf_counter(), time.process_time()
    while sum(done()) < count:
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    way.add(count, time.perf_counter() - started, time.process_time() - cpu)
    assert done() == (count - bad, bad), done()
    while not await fully_committed(settings):  # noqa: ASYNC110 - asked of the broker
        await asyncio.sleep(0.05)
    writer.stop()
    await task


async def main(count: int = 200_000, rounds: int = 3, every: int = 1_000) -> bool:
    """Print one line a kind; True where none falls by half."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    values = events(count)
    ways = {kind: Way(kind) for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, running_kafka() as kafka:
        settings = kafka.settings(clickhouse_url=f"chdb:{Path(folder) / 'clickhouse'}", topic_partitions=6)
        await ensure_topics(settings)
        async with await open_store(settings) as store:
            await migrate(store)
            for round_number in range(rounds + 1):  # the first one warms up
                for kind, way in ways.items():
                    load = spoiled(kind, values, every)
                    for start in range(0, count, CHUNK):
                        part = load[start : start + CHUNK]
                        await produce(
                            settings,
                            (Message(each, f"tool-{(start + place) % 96}".encode()) for place, each in enumerate(part)),
                        )
                    bad = len(range(every // 2, count, every)) if kind == "contract" else 0
                    await drain(way if round_number else Way("warm"), store, settings, count, bad)
    print(f"{rounds} rounds of {count} events, one in {every} bad; medians")
    for kind, way in ways.items():
        print(f"{way}   {way.over(ways['clean']):.2f} of clean   {kind}")
    return all(way.over(ways["clean"]) > 0.5 for way in ways.values())


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main(*map(int, sys.argv[1:]))) else 1)
