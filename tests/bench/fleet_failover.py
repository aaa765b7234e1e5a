"""Workers killed with SIGKILL under load: how long until every circuit of the dead one has a new version, and whether versions rise.

    python -m tests.bench.fleet_failover [--workers 2,3] [--kills 3] [--rate 500]

Every tool gets `force_open` and `close` in turn, so that each circuit gets a new version about twice a second; the failover time of a
circuit is from the kill to the broker's timestamp of its first record after it, worst circuit of the dead worker. Without a name the
group waits for the session timeout (6 s here, the default 8). A named worker (`--instance-id`) that is started again takes its
circuits back as soon as it is up, and is measured so. At the end every circuit's versions are recounted from the topic. Exit code 1 where one
fell, or where a failover took longer than the session and the ten seconds that the tests hold.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from switchgear_cli.topics import ensure_topics
from switchgear_schemas import Command
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.settings import Settings
from tests.bench.targets import exit_code
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.processes import Child, switchgear
from tests.support.recount import read_topic
from tests.support.stream import eventually, get, metric

PARTITIONS: Final = 12
SESSION_S: Final = 6
MOVE_S: Final = 10.0
"""Time after the session timeout for the rebalance, the recovery of the table and the take-over."""
TOOLS: Final = [f"tool-{number}" for number in range(48)]
REPORT_EVERY_S: Final = 0.5


@dataclass(frozen=True)
class Kill:
    """The death of a worker."""

    workers: int
    named: bool
    circuits: int
    seconds: float


class Traffic:
    """Send commands that change every circuit, and calls, while the context is open."""

    def __init__(self, settings: Settings, rate: int) -> None:
        self._settings = settings
        self._rate = rate
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and self._task.exception() is not None:
            raise RuntimeError("the traffic ended") from self._task.exception()

    async def _run(self) -> None:
        names = self._settings.topics
        async with AIOKafkaProducer(**self._settings.kafka.options(), acks="all", linger_ms=5) as producer:
            for verb in itertools.cycle(("force_open", "close")):
                began = time.monotonic()
                for tool in TOOLS:
                    command = Command.from_dict({"tool_name": tool, "verb": verb, "actor": "bench"})
                    await producer.send(names.commands, key=tool.encode(), value=command.to_bytes())
                for number in range(int(self._rate * REPORT_EVERY_S)):
                    tool = TOOLS[number % len(TOOLS)]
                    event = json.dumps({"tool_name": tool, "status": "success"}).encode()
                    await producer.send(names.executions, key=tool.encode(), value=event)
                await asyncio.sleep(max(0.0, REPORT_EVERY_S - (time.monotonic() - began)))


async def run(kafka: RunningKafka, workers: int, named: bool, kills: int, rate: int, folder: Path) -> list[Kill]:
    """Run a group of workers. After each kill, start a replacement and wait until every circuit moves again."""
    settings = kafka.settings(topic_partitions=PARTITIONS, worker_session_timeout_s=SESSION_S)
    await ensure_topics(settings)
    number = itertools.count()

    def start(name: str) -> Child:
        options = ("--instance-id", name) if named else ()
        return switchgear("worker", *options, log=folder / f"{next(number)}.log", settings=settings)

    group = {f"worker-{each}": start(f"worker-{each}") for each in range(workers)}
    deaths: list[tuple[float, set[str]]] = []
    try:
        await _shared(group)
        async with Traffic(settings, rate):
            await asyncio.sleep(3 * REPORT_EVERY_S)
            for each in range(kills):
                name = f"worker-{each % workers}"
                owned = _owned(group[name])
                died = time.time()
                group[name].kill9()
                deaths.append((died, {tool for tool in TOOLS if partition_of(tool, PARTITIONS) in owned}))
                if named:
                    group[name] = start(name)
                    await _shared(group)
                else:
                    await _shared({left: child for left, child in group.items() if left != name})
                    group[name] = start(name)
                    await _shared(group)
                await asyncio.sleep(3 * REPORT_EVERY_S)
    finally:
        for child in group.values():
            child.__exit__()
    records = await read_topic(settings.kafka_bootstrap_servers, settings.topics.circuits)
    _versions_rise(records)
    return [Kill(workers, named, len(tools), _until_all_moved(records, died, tools)) for died, tools in deaths]


def _owned(worker: Child) -> set[int]:
    """Return the partitions of a worker by its last log line about them."""
    lines = [line for line in worker.output().splitlines() if " ready " in line and "partitions=[" in line]
    inner = lines[-1].partition("partitions=[")[2].partition("]")[0]
    return {int(part) for part in inner.split(",") if part.strip()}


async def _shared(group: dict[str, Child]) -> None:
    """Return whether every partition has an owner, every worker has a partition, and all are ready."""
    for child in group.values():
        await asyncio.to_thread(child.wait_for_output, "ready  ")

    async def settled() -> bool:
        found = [int(metric(child, "switchgear_worker_partitions")) for child in group.values()]
        return (
            sum(found) == PARTITIONS
            and min(found) > 0
            and all(get(child, "/readyz")[0] == 200 for child in group.values())
        )

    await eventually(settled, timeout_s=60, what="every partition owned once")


def _versions_rise(records: list[Any]) -> None:
    """Read the records of every circuit in order. A record that was published again must have the same bytes."""
    last: dict[bytes, tuple[int, bytes]] = {}
    for record in sorted(records, key=lambda found: (found.partition, found.offset)):
        version = json.loads(record.value)["version"]
        before = last.get(record.key)
        if before is not None and version <= before[0] and (version, record.value) != before:
            raise AssertionError(f"{record.key!r}: version {version} after {before[0]}")
        last[record.key] = (version, record.value)


def _until_all_moved(records: list[Any], died: float, tools: set[str]) -> float:
    """Return the seconds until each of them had a record newer than the death."""
    first: dict[str, float] = defaultdict(lambda: float("inf"))
    seen: dict[str, int] = {}
    for record in sorted(records, key=lambda found: (found.partition, found.offset)):
        tool = record.key.decode()
        version = json.loads(record.value)["version"]
        if tool in tools and record.timestamp / 1000 > died and version > seen.get(tool, 0):
            first[tool] = min(first[tool], record.timestamp / 1000 - died)
        seen[tool] = max(version, seen.get(tool, 0))
    return max(first[tool] for tool in tools)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=lambda text: [int(part) for part in text.split(",")], default=[2, 3])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--rate", type=int, default=500, help="Calls a second beside the commands.")
    given = parser.parse_args()
    kills: list[Kill] = []
    print("| workers | named, started again at once | circuits moved | seconds until each had a new version |")
    print("|---|---|---|---|", flush=True)
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        for workers, named in itertools.product(given.workers, (False, True)):
            folder = Path(temporary) / f"{workers}-{named}"
            folder.mkdir()
            found = asyncio.run(run(kafka, workers, named, given.kills, given.rate, folder))
            kills.extend(found)
            circuits = ", ".join(str(kill.circuits) for kill in found)
            seconds = ", ".join(f"{kill.seconds:.1f}" for kill in found)
            print(f"| {workers} | {'yes' if named else 'no'} | {circuits} | {seconds} |", flush=True)
    late = [kill for kill in kills if kill.seconds > SESSION_S + MOVE_S]
    print(f"\nVersions rose in every circuit. Stated: {SESSION_S} s of session and at most {MOVE_S:g} s to move.")
    return exit_code(met=not late)


if __name__ == "__main__":
    sys.exit(main())
