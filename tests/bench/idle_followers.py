"""What an idle follower costs the broker, and how fast a record arrives, with fetches of half a second and of ten.

    python -m tests.bench.idle_followers [--followers 100] [--seconds 30]

Both kinds of followers run in one process, one kind after the other, against one broker. Requests are counted where aiokafka writes them
to a socket. The CPU time is that of the broker. A hop is from before a record is sent until a follower's listener has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection

from switchgear import CircuitFollower
from switchgear_cli.local.kafka import LocalKafka
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings, load_settings
from tests.bench.fan_out import cpu_s, publish, quantile, record
from tests.bench.targets import exit_code
from tests.support.limits import HAPPEN_S
from tests.support.waiting import auntil

SETTLE_S = 12.0
HOPS = 40


def count_requests() -> Counter[str]:
    """Count the requests of this process by their type, from now on."""
    counted: Counter[str] = Counter()
    send = AIOKafkaConnection.send

    def counting(self: Any, request: Any, **named: Any) -> Any:
        counted[type(request).__name__] += 1
        return send(self, request, **named)

    AIOKafkaConnection.send = counting
    return counted


async def measure(settings: Settings, broker: int, followers: int, seconds: float) -> list[dict[str, float]]:
    """Return the figures of each wait."""
    await ensure_topics(settings)
    counted = count_requests()
    found = []
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all")
    await producer.start()
    try:
        for each in range(settings.topic_partitions):
            await producer.send_and_wait(settings.topics.circuits, None, key=b"first", partition=each)
        cpu, began = cpu_s(broker), time.monotonic()
        await asyncio.sleep(seconds)
        alone = (cpu_s(broker) - cpu) / (time.monotonic() - began)
        version = 0
        for wait_s in (0.5, 10.0):
            running = [
                CircuitFollower(settings.kafka, topic_prefix=settings.topic_prefix, fetch_wait_s=wait_s)
                for _ in range(followers)
            ]
            arrived: list[float] = []
            running[0].listeners.append(lambda _view, arrived=arrived: arrived.append(time.monotonic()))
            for follower in running:
                follower.start()
            await auntil(lambda running=running: all(each.loaded for each in running), 120)
            await asyncio.sleep(SETTLE_S)
            counted.clear()
            cpu, own, began = cpu_s(broker), time.process_time(), time.monotonic()
            await asyncio.sleep(seconds)
            took = time.monotonic() - began
            idle = {
                "wait_s": wait_s,
                "fetches": counted["FetchRequest"] / took / followers,
                "others": (counted.total() - counted["FetchRequest"]) / took / followers,
                "broker_cpu_us": 1e6 * ((cpu_s(broker) - cpu) / took - alone) / followers,
                "own_cpu_us": 1e6 * (time.process_time() - own) / took / followers,
            }
            hops = []
            arrived.clear()
            for number in range(HOPS):
                version += 1
                sent = time.monotonic()
                await publish(producer, settings, "tool", record("tool", version))
                await auntil(lambda arrived=arrived, number=number: len(arrived) > number, HAPPEN_S)
                hops.append(1000 * (arrived[number] - sent))
                await asyncio.sleep(0.1)
            began = time.monotonic()
            for follower in running:
                follower.close(10)
            idle |= {
                "hop_p50_ms": quantile(hops, 50),
                "hop_p99_ms": quantile(hops, 99),
                "close_s": (time.monotonic() - began) / followers,
            }
            found.append(idle)
    finally:
        await producer.stop()
    return found


def main() -> int:
    """Measure and print a table. Return 1 if a long wait makes a record arrive late."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.idle_followers", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--followers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    port = any_free_port()
    with (
        tempfile.TemporaryDirectory(prefix="switchgear-bench-") as folder,
        LocalKafka(Path(folder), port, start_timeout_s=240) as kafka,
    ):
        assert kafka.pid is not None
        settings = load_settings(kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="idle.", topic_partitions=4)
        found = asyncio.run(measure(settings, kafka.pid, given.followers, given.seconds))
    print("| wait | fetches/s | other requests/s | broker's CPU | own CPU | hop p50, p99 | close |")
    print("|---|---|---|---|---|---|---|")
    for each in found:
        print(
            f"| {each['wait_s']:g} s | {each['fetches']:.2f} | {each['others']:.2f} | {each['broker_cpu_us']:,.0f} µs/s "
            f"| {each['own_cpu_us']:,.0f} µs/s | {each['hop_p50_ms']:.1f} ms, {each['hop_p99_ms']:.1f} ms "
            f"| {each['close_s']:.2f} s |"
        )
    print(json.dumps(found))
    return exit_code(met=found[1]["hop_p50_ms"] <= 2 * found[0]["hop_p50_ms"] + 10)


if __name__ == "__main__":
    sys.exit(main())
