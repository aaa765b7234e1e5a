"""Twenty real processes with a real Kafka and a real Redis."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from tests.bench.fleet.agent import Call
from tests.bench.fleet.contenders.switchgear import policy_file
from tests.bench.fleet.measures import measure
from tests.bench.fleet.outages import OUTAGES, REAL
from tests.bench.fleet.place import contender
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.processes import Child, all_ended, environment, python, switchgear

SCRIPT: Final = "from tests.bench.fleet.caller import main; main()"
HEAD_START_S: Final = 0.3
"""From writing the start file to the start, so that every process has read it."""
LIMIT_S: Final = 60.0
GET_REDIS: Final = (
    "No redis-server: install it with `apt-get install -y redis-server`, or by your system's package manager."
)


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Start a Redis that keeps nothing on disk, and yield its URL."""
    binary, port = shutil.which("redis-server"), any_free_port()
    assert binary is not None, GET_REDIS
    command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with Child(command, folder / "redis.log", environment()) as server:
        server.wait_for_output("Ready to accept connections")
        yield f"redis://127.0.0.1:{port}/0"


def left_out(names: list[str]) -> dict[str, str]:
    """Return which contenders can't run here, and why."""
    if shutil.which("redis-server") is not None:
        return {}
    return {name: GET_REDIS for name in names if contender(name).needs == "redis"}


def trial(
    name: str, number: int, processes: int, kafka: RunningKafka, redis_url: str, folder: Path
) -> list[dict[str, Any]]:
    """Run all outages at once with one contender, each with a tool of its own, and return their measures."""
    timing = REAL.of_round(number)
    settings = kafka.settings(policy_file=folder / "policies.toml", topic_partitions=12)
    given = {
        "contender": name, "round": number, "timing": asdict(timing), "kafka": settings.kafka_bootstrap_servers,
        "prefix": settings.topic_prefix, "redis_url": redis_url, "start": str(folder / "start"),
    }  # fmt: skip
    with ExitStack() as stack:
        if contender(name).needs == "kafka":
            (folder / "policies.toml").write_text(policy_file(timing), encoding="utf-8")
            asyncio.run(ensure_topics(settings))
            worker = stack.enter_context(switchgear("worker", log=folder / "worker.log", settings=settings))
            worker.wait_for_output("ready  ")
        children: list[Child] = []
        for process in range(processes):
            arguments = json.dumps(given | {"process": process, "out": str(folder / f"{process}.json")})
            children.append(python(SCRIPT, arguments, log=folder / f"{process}.log"))
        stack.enter_context(all_ended(*children))
        for child in children:
            child.wait_for_output("ready")
        start = folder / "start.new"
        start.write_text(str(time.monotonic() + HEAD_START_S), encoding="utf-8")
        start.rename(folder / "start")
        for child in children:
            code = child.wait_for_exit(timing.length_s + LIMIT_S)
            assert code == 0, child.output()
    calls: dict[str, list[Call]] = {outage.name: [] for outage in OUTAGES}
    for process in range(processes):
        for outage, found in json.loads((folder / f"{process}.json").read_text(encoding="utf-8")).items():
            calls[outage] += [Call(**fields) for fields in found]
    return [
        {"contender": name, "outage": outage.name, "round": number}
        | asdict(measure(calls[outage.name], outage, timing, processes))
        for outage in OUTAGES
    ]


def run(names: list[str], processes: int, rounds: int) -> list[dict[str, Any]]:
    """Run the contenders one after the other, for several rounds. Each round begins with another one."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="switchgear-fleet-") as temporary, ExitStack() as stack:
        redis_url = ""
        if any(contender(name).needs == "redis" for name in names):
            redis_url = stack.enter_context(running_redis(Path(temporary)))
        kafka = stack.enter_context(running_kafka())
        for number in range(rounds):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                folder = Path(temporary) / f"{number}-{name}"
                folder.mkdir()
                found += trial(name, number, processes, kafka, redis_url, folder)
                print(f"<!-- round {number + 1} of {rounds}: {name} -->", flush=True)
    return found
