"""Events per second and CPU per event: our worker beside Faust, Quix Streams and Kafka Streams, on the same broker and events.

    python -m tests.bench.worker_bench [--events 400000] [--rounds 3] [--tools 200] [--per-server 8] [--partitions 12] [--json]

The contenders take turns for several rounds. Each reads a topic from its start, alone, in a process of its own. Our worker runs with
server circuits and without (an empty ``family_pattern``), and does the whole work: decode, fence, breaker with the fleet's rules, rows,
records. The others do less. Of the stock Faust agents one only decodes, and one adds to a row of a table in memory. Quix Streams and
Kafka Streams decode, and count the events of each key in windows of a minute, with their default state, commits and changelog: Quix
Streams in RocksDB, Kafka Streams in memory. Their keys are those of the topic, which are the servers.
The clock runs from the first progress seen to the last, so that start-up doesn't count. CPU is the process's own (user and system).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil
from aiokafka import AIOKafkaProducer

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.families import DEFAULT_PATTERN, partition_key
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from tests.bench.intervals import paired_ratios, times, with_spread
from tests.bench.targets import exit_code
from tests.bench.worker_rivals import count_of, rivals
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.processes import Child, switchgear
from tests.support.stream import metric

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
    while time.monotonic() < deadline and child.alive:
        done, cpu = count(), sum(process.cpu_times()[:2])
        if first is None and done > 0:
            first = (time.monotonic(), done, cpu)
        if first is not None and done >= wanted:
            seconds, events = time.monotonic() - first[0], done - first[1]
            return Result(contender, events, seconds, events / seconds, (cpu - first[2]) / events * 1e6)
        time.sleep(LOOK_S)
    raise AssertionError(
        f"{contender} did {count()} of {wanted} events within {LIMIT_S:g} s, or ended:\n{child.output()[-3000:]}"
    )


def ours(kafka: RunningKafka, given: argparse.Namespace, pattern: str, folder: Path) -> tuple[Settings, Result]:
    """Fill a topic, and measure our worker on it."""
    settings = kafka.settings(topic_partitions=given.partitions, family_pattern=pattern)
    asyncio.run(ensure_topics(settings))
    asyncio.run(fill(settings, given.events, given.tools, given.per_server))
    with switchgear("worker", log=folder / "ours.log", settings=settings) as child:
        child.wait_for_output("http  ")
        title = OURS if pattern else WITHOUT
        return settings, measure(title, child, lambda: int(metric(child, EXECUTIONS)), given.events)


def run(given: argparse.Namespace) -> list[Result]:
    """Measure all contenders in turns, for several rounds."""
    results = []
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        for number in range(given.rounds):
            for pattern in ("", DEFAULT_PATTERN) if number % 2 else (DEFAULT_PATTERN, ""):
                folder = Path(tempfile.mkdtemp(dir=temporary))
                settings, result = ours(kafka, given, pattern, folder)
                results.append(result)
            for rival in rivals():
                if not rival.missing:
                    with rival.start(settings, Path(tempfile.mkdtemp(dir=temporary))) as child:
                        wanted = int(given.events * rival.share)
                        results.append(measure(rival.title, child, lambda child=child: count_of(child), wanted))
    return results


def lines(results: list[Result]) -> Iterator[str]:
    """Yield the rows of the table: medians with spread, and how many times as fast ours is and as cheap, with an interval."""
    yield "| contender | events/s | CPU, µs an event | ours is faster | ours takes less CPU |"
    yield "|---|---|---|---|---|"
    by_title: dict[str, list[Result]] = {}
    for result in results:
        by_title.setdefault(result.contender, []).append(result)
    base = by_title[OURS]
    for title, found in by_title.items():
        speeds, cpu = [each.events_per_s for each in found], [each.cpu_us_per_event for each in found]
        faster = paired_ratios([each.events_per_s for each in base], speeds)
        cheaper = paired_ratios(cpu, [each.cpu_us_per_event for each in base])
        ratios = " | " if title == OURS else f"{times(faster)} | {times(cheaper)}"
        yield f"| {title} | {with_spread(speeds)} | {with_spread(cpu)} | {ratios} |"


def main() -> int:
    """Print the table. The exit code is 3 if the worker is less than ten times as fast as the stock agent with a table, or if server
    circuits cost more than a fifth.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=int, default=200)
    parser.add_argument("--per-server", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = run(given)
    table = next(rival.title for rival in rivals() if "table" in rival.title)
    speed = {name: _median(results, name, "events_per_s") for name in (OURS, table)}
    cpu = {name: _median(results, name, "cpu_us_per_event") for name in (OURS, WITHOUT)}
    families = cpu[OURS] / cpu[WITHOUT]
    if given.json:
        print(json.dumps([asdict(result) for result in results]))
    else:
        print("\n".join(lines(results)))
        print(f"\nThe median of {given.rounds} rounds, with the smallest and the largest in brackets.")
        print(f"CPU of an event with server circuits: {families:.2f} times that without.")
        for rival in rivals():
            if rival.missing:
                print(f"Not run: {rival.title}. {rival.missing}")
    return exit_code(met=speed[OURS] >= 10 * speed[table] and families <= MOST_FOR_FAMILIES)


def _median(results: list[Result], title: str, field: str) -> float:
    return median(getattr(result, field) for result in results if result.contender == title)


if __name__ == "__main__":
    sys.exit(main())
