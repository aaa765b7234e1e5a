"""What a whole ``switchgear up`` takes while little happens, part by part: processor time, memory, disk and inserts.

    python -m tests.bench.cost_at_rest [SECONDS] [CALLS_PER_S ...]

Calls of 96 tools are written to Kafka at an even rate, as processes write them, each rate for SECONDS (20 by default; rates 0, 22,
1,000 and 10,000; ``make up`` makes 22). One call in twenty fails. The first seconds of each rate are not counted. ``up`` draws on a
terminal. The cost of this program, which makes the calls, is not in the table.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

import psutil
from aiokafka import AIOKafkaProducer

from switchgear_schemas.families import partition_key
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings, load_settings
from tests.bench.sink import events

WARM_S: Final = 8.0
STEP_S: Final = 0.02
READY_S: Final = 120.0
RATES: Final = (0.0, 22.0, 1_000.0, 10_000.0)
INSERTS: Final = re.compile(r'switchgear_sink_batches_total\{table="tool_metrics"\} ([0-9.e+]+)')


class Reading(NamedTuple):
    """What the parts have used since they started."""

    at: float
    cpu_s: Mapping[str, float]
    memory: Mapping[str, int]
    written: Mapping[str, int]
    inserts: float


@contextmanager
def running_up(folder: Path) -> Iterator[Path]:
    """Run ``switchgear up`` without demo traffic on a terminal of its own. Yield its record's path."""
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "switchgear_cli", "up", "--no-demo", "--data-dir", str(folder)]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    threading.Thread(target=_drain, args=(main,), daemon=True).start()
    try:
        deadline = time.monotonic() + READY_S
        while not (folder / "up.json").is_file():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"`switchgear up` is not ready; its logs are in {folder}/logs.")
            time.sleep(0.2)
        yield folder / "up.json"
    finally:
        process.terminate()
        process.wait(60)
        os.close(main)


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65_536):
            pass
    except OSError:
        return  # the terminal is closed


def look(record: Path) -> Reading:
    """Read what each part has used so far, its children included."""
    found = json.loads(record.read_text())
    cpu_s, memory, written = {}, {}, {}
    for name, pid in {**found["pids"], "up": found["pid"]}.items():
        own = psutil.Process(pid)
        family = [own] if name == "up" else [own, *own.children(recursive=True)]
        times = [each.cpu_times() for each in family]
        cpu_s[name] = sum(each.user + each.system for each in times) + (
            0.0 if name == "up" else own.cpu_times().children_user + own.cpu_times().children_system
        )
        memory[name] = sum(each.memory_info().rss for each in family)
        written[name] = sum(each.io_counters().write_bytes for each in family)
    with urlopen(f"{found['api_url']}/metrics", timeout=10) as answer:
        inserts = INSERTS.search(answer.read().decode())
    return Reading(time.monotonic(), cpu_s, memory, written, float(inserts[1]) if inserts else 0.0)


async def feed(settings: Settings, values: list[bytes], calls_per_s: float, stop: asyncio.Event) -> float:
    """Write calls to the partitions of their tools until ``stop``. Return how many were written a second."""
    keys = [partition_key(f"tool-{place}", settings.family_pattern) for place in range(96)]
    places = [owner_partition(key, settings.topic_partitions) for key in keys]
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", linger_ms=20)
    await producer.start()
    try:
        started, sent = time.monotonic(), 0
        while not stop.is_set():
            while sent < (time.monotonic() - started) * calls_per_s:
                tool = sent % 96
                await producer.send(
                    settings.topics.executions,
                    values[sent % len(values)],
                    key=keys[tool].encode(),
                    partition=places[tool],
                )
                sent += 1
            await asyncio.sleep(STEP_S)
        return sent / (time.monotonic() - started)
    finally:
        await producer.stop()


async def measure(record: Path, settings: Settings, values: list[bytes], calls_per_s: float, seconds: float) -> None:
    """Print the rows of one rate."""
    stop = asyncio.Event()
    feeding = asyncio.create_task(feed(settings, values, calls_per_s, stop))
    await asyncio.sleep(WARM_S)
    before = await asyncio.to_thread(look, record)
    await asyncio.sleep(seconds)
    after = await asyncio.to_thread(look, record)
    stop.set()
    written = await feeding
    if written < 0.95 * calls_per_s:
        print(f"Only {written:,.0f} of {calls_per_s:,.0f} calls a second were written.")
    took = after.at - before.at
    share = {name: (after.cpu_s[name] - before.cpu_s[name]) / took for name in before.cpu_s}
    disk = {name: (after.written[name] - before.written[name]) / took / 1024 for name in before.cpu_s}
    for name in sorted(share, key=share.__getitem__, reverse=True):
        inserts = f"{(after.inserts - before.inserts) / took:.2f}" if name == "sink" else ""
        print(
            f"| {calls_per_s:,.0f} | {name} | {share[name]:.1%} | {after.memory[name] / 2**20:,.0f} | {disk[name]:,.0f} | {inserts} |"
        )
    print(
        f"| {calls_per_s:,.0f} | **together** | **{sum(share.values()):.1%}** | {sum(after.memory.values()) / 2**20:,.0f} "
        f"| {sum(disk.values()):,.0f} | |",
        flush=True,
    )


async def main(seconds: float = 20.0, *rates: float) -> None:
    """Print a table: a row per rate and part."""
    values = await asyncio.to_thread(events, 96 * 200)
    with tempfile.TemporaryDirectory() as under, running_up(Path(under) / "data") as record:
        found = json.loads(record.read_text())
        settings = load_settings(
            kafka_bootstrap_servers=found["kafka_bootstrap_servers"], topic_prefix=found["topic_prefix"]
        )
        print("| calls/s | part | of one core | memory, MiB | to disk, KiB/s | inserts/s |")
        print("|---|---|---|---|---|---|", flush=True)
        for rate in rates or RATES:
            await measure(record, settings, values, rate, seconds)


if __name__ == "__main__":
    asyncio.run(main(*map(float, sys.argv[1:])))
