"""The sink's memory over a long run: is it flat?

    python -m tests.bench.sink_memory [EVENTS]

A sink process drains EVENTS (a million by default) while they are produced; its resident memory is sampled four times a second and reported
by the rows it has stored: alone (ClickHouse is another process), and with the ClickHouse engine inside it, whose caches fill first. Flat
means that the median of the last quarter of the rows is that of the second: what comes before is the start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

import structlog
from aiokafka import AIOKafkaProducer

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.bench.sink import events
from tests.bench.targets import exit_code
from tests.support.clickhouse_http import clickhouse_server
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.processes import Child, switchgear

CHUNK: Final = 25_000
EVERY_S: Final = 0.25
LIMIT_S: Final = 300.0
STEPS: Final = 20
PAGE_MIB: Final = os.sysconf("SC_PAGESIZE") / 1_048_576
STORED: Final = re.compile(r'switchgear_sink_rows_total\{table="tool_metrics"\} ([0-9.e+]+)')
Samples = list[tuple[float, float]]
"""Stored rows, and MiB."""


async def feed(settings: Settings, count: int) -> None:
    """Produce ``count`` events in whole batches. All chunks have the same ids."""
    values = await asyncio.to_thread(events, CHUNK)
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", enable_idempotence=True)
    await producer.start()
    try:
        for start in range(0, count, CHUNK):
            for partition in range(settings.topic_partitions):
                part = values[partition : min(CHUNK, count - start) : settings.topic_partitions]
                while part:
                    batch = producer.create_batch()
                    taken = 0
                    for value in part:
                        if batch.append(key=None, value=value, timestamp=None) is None:
                            break
                        taken += 1
                    part = part[taken:]
                    await (await producer.send_batch(batch, settings.topics.executions, partition=partition))
    finally:
        await producer.stop()


def rows_stored(settings: Settings) -> float:
    """Return the stored rows by the sink's metrics."""
    try:
        with urlopen(f"http://{settings.api_http}/metrics", timeout=10) as answer:
            found = STORED.search(answer.read().decode())
    except URLError:
        return 0.0
    return float(found[1]) if found else 0.0


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB


async def sampled(child: Child, settings: Settings, count: int) -> Samples:
    """Sample the memory until every event is a row."""
    samples: Samples = []
    deadline = time.monotonic() + LIMIT_S
    while not samples or samples[-1][0] < count:
        assert child.alive, child.output()
        assert time.monotonic() < deadline, f"{samples[-1][0]:,.0f} of {count:,} rows after {LIMIT_S:.0f} s"
        samples.append((await asyncio.to_thread(rows_stored, settings), resident_mib(child.pid)))
        await asyncio.sleep(EVERY_S)
    return samples


async def run(kafka: RunningKafka, count: int, folder: Path, *, embedded: bool) -> Samples:
    """Run a sink from its start to the last row."""
    with ExitStack() as stack:
        if embedded:
            url = f"chdb:{folder / 'engine'}"
        else:
            url = stack.enter_context(clickhouse_server(folder / "server", any_free_port())).url + "/switchgear"
        settings = kafka.settings(clickhouse_url=url)
        await ensure_topics(settings)
        child = stack.enter_context(switchgear("sink", log=folder / "sink.log", settings=settings))
        await asyncio.to_thread(child.wait_for_output, " ready ")
        feeding = asyncio.create_task(feed(settings, count))
        try:
            samples = await sampled(child, settings, count)
        finally:
            feeding.cancel()
        return samples


def quarter(samples: Samples, number: int) -> float:
    """Return the median MiB of one quarter of the rows. The first quarter is 1."""
    end = samples[-1][0]
    found = [mib for rows, mib in samples if (number - 1) * end / 4 < rows <= number * end / 4]
    return statistics.median(found or [samples[-1][1]])


def table(curves: dict[str, Samples], count: int) -> str:
    """Return the memory by stored rows, one column per way: the last sample at or below each step."""
    lines = [f"| rows stored | {' | '.join(f'{name}, MiB' for name in curves)} |", "|---|" + "---|" * len(curves)]
    for step in range(STEPS + 1):
        rows = count * step / STEPS
        cells = [f"{[mib for at, mib in samples if at <= rows][-1]:.0f}" for samples in curves.values()]
        lines.append(f"| {rows:,.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


async def main(count: int = 1_000_000) -> bool:
    """Print the table and the quarters. Return whether no way has grown by a tenth since its second quarter."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    curves: dict[str, Samples] = {}
    with running_kafka() as kafka:
        for name, embedded in (("sink alone", False), ("with the engine", True)):
            with tempfile.TemporaryDirectory() as folder:
                curves[name] = await run(kafka, count, Path(folder), embedded=embedded)
    print(table(curves, count))
    flat = True
    for name, samples in curves.items():
        first, second, last = (quarter(samples, number) for number in (1, 2, 4))
        flat = flat and last <= 1.1 * second
        print(
            f"\n{name}: medians of the quarters {first:.0f}, {second:.0f} … {last:.0f} MiB; peak {max(mib for _, mib in samples):.0f}"
        )
    return flat


if __name__ == "__main__":
    sys.exit(exit_code(met=asyncio.run(main(*map(int, sys.argv[1:])))))
