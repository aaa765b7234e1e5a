"""What the sink takes while little happens: processor time, disk and inserts, with the embedded engine.

    python -m tests.bench.sink_at_rest [SECONDS] [CALLS_PER_S ...]

A ``switchgear sink`` with 12 partitions stores calls at an even rate, each rate for SECONDS (20 by default; rates 0, 22 and 1,000).
The first seconds of each rate are not counted.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from aiokafka import AIOKafkaProducer

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.bench.sink import events
from tests.support.engine import copy_migrated
from tests.support.kafka import running_kafka
from tests.support.processes import switchgear

WARM_S: Final = 8.0
STEP_S: Final = 0.05
INSERTS: Final = re.compile(r'switchgear_sink_batches_total\{table="tool_metrics"\} ([0-9.e+]+)')
SECONDS: Final = re.compile(r'switchgear_sink_insert_seconds_sum\{table="tool_metrics"\} ([0-9.e+-]+)')
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Reading:
    """What a process has used so far."""

    def __init__(self, pid: int, settings: Settings) -> None:
        self.at = time.monotonic()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        self.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
        written = re.search(r"^write_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
        self.written = int(written[1]) if written else 0
        with urlopen(f"http://{settings.api_http}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        self.inserts, self.insert_s = (
            float(found[1]) if (found := each.search(metrics)) else 0.0 for each in (INSERTS, SECONDS)
        )


async def feed(settings: Settings, calls_per_s: float, stop: asyncio.Event) -> None:
    """Produce calls of 96 tools, spread over all partitions, until ``stop``."""
    values = await asyncio.to_thread(events, 20_000)
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all")
    await producer.start()
    try:
        started, sent = time.monotonic(), 0
        while not stop.is_set():
            while sent < (time.monotonic() - started) * calls_per_s:
                partition = hash(values[sent % 96][:60]) % settings.topic_partitions
                await producer.send(settings.topics.executions, values[sent % len(values)], partition=partition)
                sent += 1
            await asyncio.sleep(STEP_S)
    finally:
        await producer.stop()


async def measure(settings: Settings, pid: int, calls_per_s: float, seconds: float) -> str:
    """Return a line of the table."""
    stop = asyncio.Event()
    feeding = asyncio.create_task(feed(settings, calls_per_s, stop))
    await asyncio.sleep(WARM_S)
    before = await asyncio.to_thread(Reading, pid, settings)
    shares, last = [], before
    for _ in range(4):
        await asyncio.sleep(seconds / 4)
        now = await asyncio.to_thread(Reading, pid, settings)
        shares.append((now.cpu_s - last.cpu_s) / (now.at - last.at) * 100)
        last = now
    stop.set()
    await feeding
    took, inserts = last.at - before.at, last.inserts - before.inserts
    cpu_s = last.cpu_s - before.cpu_s
    wall_ms = (last.insert_s - before.insert_s) / max(1.0, inserts) * 1000
    return (
        f"{calls_per_s:>10,.0f}{cpu_s / took * 100:>16.1f}{statistics.median(shares):>10.1f}{inserts / took:>12.2f}"
        f"{wall_ms:>12.0f}{(last.written - before.written) / took / 1024:>16.0f}"
    )


async def main(seconds: float = 20.0, *rates: float) -> None:
    """Print a line per rate."""
    with tempfile.TemporaryDirectory() as under, running_kafka() as kafka:
        folder = Path(under) / "clickhouse"
        await asyncio.to_thread(copy_migrated, folder)
        settings = kafka.settings(clickhouse_url=f"chdb:{folder}", topic_partitions=12)
        await ensure_topics(settings)
        with switchgear("sink", log=Path(under) / "sink.log", settings=settings) as sink:
            await asyncio.to_thread(sink.wait_for_output, " ready ")
            print(
                f"{'calls/s':>10}{'% of a core':>16}{'median':>10}{'inserts/s':>12}{'insert ms':>12}{'KiB/s to disk':>16}"
            )
            for rate in rates or (0.0, 22.0, 1_000.0):
                print(await measure(settings, sink.pid, rate, seconds), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*map(float, sys.argv[1:])))
