"""Events per second and CPU per event: our worker against stock Faust agents, on the same broker and the same events.

    python -m tests.bench.worker_bench [--events 400000] [--tools 200] [--per-server 8] [--partitions 12] [--json]

Our worker runs with server circuits and without (an empty ``family_pattern``), each twice, in turns. Each contender reads the same topic from its start, alone, in a process of its own. Ours does the whole work: decode, fence, breaker with the
fleet's rules, rows, records. The stock agents do less: one decodes and adds to a table row per event, the other only decodes.
The clock runs from the first progress seen to the last, so that start-up doesn't count; CPU is the process's own (user and system).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from aiokafka import AIOKafkaProducer
from rich.console import Console
from rich.table import Table

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.families import DEFAULT_PATTERN, partition_key
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from tests.support.kafka import running_kafka
from tests.support.processes import Child, python, switchgear
from tests.support.stream import metric

STOCK = """
import asyncio, sys, faust, msgspec, time
servers, topic, partitions, with_table, prefix = sys.argv[1:6]
from switchgear_schemas.wire import decode_execution
app = faust.App(prefix + "stock" + with_table, datadir=sys.argv[6], broker="kafka://" + servers, value_serializer="raw", key_serializer="raw",
    store="memory://", web_enabled=False, topic_partitions=int(partitions), broker_max_poll_records=5000,
    stream_wait_empty=False, consumer_auto_offset_reset="earliest", topic_disable_leader=True)
source = app.topic(topic, key_type=bytes, value_type=bytes)
table = app.Table("counts", key_type=bytes, value_type=bytes, partitions=int(partitions)) if with_table == "1" else None
count = 0
@app.agent(source)
async def fold(stream):
    global count
    async for value in stream:
        event = decode_execution(value)
        if table is not None:
            key = event.tool_name.encode()
            table[key] = str(int(table.get(key) or b"0") + 1).encode()
        count += 1
async def main():
    await app.maybe_start()
    while True:
        print("count", count, flush=True)
        await asyncio.sleep(0.1)
asyncio.get_event_loop().run_until_complete(main())
"""
LIMIT_S = 180.0
LOOK_S = 0.25
"""Between looks at the worker's metrics. One takes it milliseconds, which would otherwise count as the cost of events."""
OURS, WITHOUT = "switchgear worker", "switchgear worker, no server circuits"
MOST_FOR_FAMILIES = 1.2
EXECUTIONS = "switchgear_worker_executions_total"


@dataclass(frozen=True)
class Result:
    """The result of a contender."""

    contender: str
    events: int
    seconds: float
    events_per_s: float
    cpu_us_per_event: float


async def fill(settings: Settings, events: int, tools: int, per_server: int) -> None:
    """Write the events with keys, as a producer of any language does."""
    producer = AIOKafkaProducer(**settings.kafka.options(), acks=1, max_batch_size=900_000)
    await producer.start()
    chance = random.Random(1)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    batches = [producer.create_batch() for _ in range(settings.topic_partitions)]
    sent = []
    for number in range(events):
        tool = f"mcp:server-{number % tools // per_server}:call-{number % tools % per_server}"
        event = {
            "metric_id": f"0190c7f0-0000-7000-8000-{number:012x}",
            "tool_name": tool,
            "status": "error" if chance.random() < 0.02 else "success",
            "execution_time_ms": chance.random() * 1000,
            "emitter_id": f"planner@host-{number % 20}",
            "session_id": f"s{number % 500}",
            "generation": 0,
            "family_generation": 0,
            "recorded_at": now,
        }
        key = partition_key(tool, settings.family_pattern)
        place = owner_partition(key, settings.topic_partitions)
        value = json.dumps(event).encode()
        if batches[place].append(timestamp=None, key=key.encode(), value=value) is None:
            sent.append(await producer.send_batch(batches[place], settings.topics.executions, partition=place))
            batches[place] = producer.create_batch()
            batches[place].append(timestamp=None, key=key.encode(), value=value)
    for place, batch in enumerate(batches):
        if batch.record_count():
            sent.append(await producer.send_batch(batch, settings.topics.executions, partition=place))
    await asyncio.gather(*sent)
    await producer.stop()


def measure(contender: str, child: Child, count: object, wanted: int) -> Result:
    """Measure a contender until it has processed ``wanted`` events."""
    assert callable(count)
    process = psutil.Process(child.pid)
    first: tuple[float, int, float] | None = None
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        done, cpu = count(), sum(process.cpu_times()[:2])
        if first is None and done > 0:
            first = (time.monotonic(), done, cpu)
        if first is not None and done >= wanted:
            seconds, events = time.monotonic() - first[0], done - first[1]
            return Result(contender, events, seconds, events / seconds, (cpu - first[2]) / events * 1e6)
        time.sleep(LOOK_S)
    raise AssertionError(
        f"{contender} did {count()} of {wanted} events within {LIMIT_S:g} s:\n{child.output()[-3000:]}"
    )


def stock_count(child: Child) -> int:
    """Return the last count that a stock agent printed."""
    lines = [line for line in child.output()[-200:].splitlines() if line.startswith("count ")]
    return int(lines[-1].split()[1]) if lines and lines[-1].split()[1:] else 0


def run(events: int, tools: int, per_server: int, partitions: int) -> list[Result]:
    """Measure all contenders, one after the other."""
    results = []
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as folder:
        for number, pattern in enumerate(("", DEFAULT_PATTERN, DEFAULT_PATTERN, "")):
            settings = kafka.settings(topic_partitions=partitions, family_pattern=pattern)
            asyncio.run(ensure_topics(settings))
            asyncio.run(fill(settings, events, tools, per_server))
            with switchgear("worker", log=Path(folder) / f"ours{number}.log", settings=settings) as child:
                child.wait_for_output("http  ")
                title = OURS if pattern else WITHOUT
                results.append(measure(title, child, lambda child=child: int(metric(child, EXECUTIONS)), events))
        for with_table, title, share in (("0", "stock agent, decode only", 8), ("1", "stock agent, table write", 16)):
            arguments = [settings.kafka_bootstrap_servers, settings.topics.executions, str(partitions), with_table]
            log = Path(folder) / f"stock{with_table}.log"
            with python(
                STOCK, *arguments, settings.topic_prefix, str(Path(folder) / f"stock{with_table}-data"), log=log
            ) as child:
                results.append(measure(title, child, lambda child=child: stock_count(child), events // share))
    return results


def main() -> int:
    """Print the table. The exit code is 1 if the worker is less than ten times as fast as the stock agent with a table, or if server
    circuits cost more than a fifth.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--tools", type=int, default=200)
    parser.add_argument("--per-server", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = run(given.events, given.tools, given.per_server, given.partitions)
    ours = max((result for result in results if result.contender == OURS), key=lambda result: result.events_per_s)
    cpu = {
        name: sum(result.cpu_us_per_event for result in results if result.contender == name) for name in (OURS, WITHOUT)
    }
    families = cpu[OURS] / cpu[WITHOUT]
    if given.json:
        print(json.dumps([asdict(result) for result in results]))
    else:
        table = Table("contender", "events", "seconds", "events/s", "CPU µs/event", "ours is", box=None)
        for result in results:
            table.add_row(
                result.contender,
                f"{result.events:,}",
                f"{result.seconds:.2f}",
                f"{result.events_per_s:,.0f}",
                f"{result.cpu_us_per_event:.1f}",
                f"{ours.events_per_s / result.events_per_s:.1f} times",
            )
        Console().print(table)
        print(f"CPU of an event with server circuits: {families:.2f} times that without")
    return 0 if ours.events_per_s >= 10 * results[-1].events_per_s and families <= MOST_FOR_FAMILIES else 1


if __name__ == "__main__":
    sys.exit(main())
