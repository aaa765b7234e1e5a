"""How fast one gateway passes a changed circuit on to 2,000 streams, what a stream costs, and how it takes all clients at once.

    python -m tests.bench.fan_out [--clients 2000] [--circuits 2000] [--changes 60]

The gateway's routes run on one core, with the follower and the real broker. The clients are sockets of another process. Latencies are
from the moment before the record is sent to Kafka until a client, and the last client, has its bytes. In a storm, every client closes
its connection and connects again at once: first each resumes at its last event, then each wants a snapshot.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from switchgear_cli.local.kafka import LocalKafka
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.settings import Settings, load_settings
from tests.support.fan_out import MARK, Party

PAGE_KIB: Final = os.sysconf("SC_PAGESIZE") / 1024
TICKS: Final = os.sysconf("SC_CLK_TCK")
LIMIT_S: Final = 300.0


def record(tool: str, version: int, error: str = "ConnectionError: the server refused the connection") -> bytes:
    """Return a record of a circuit, of the usual size."""
    counts = dict.fromkeys(
        ("calls", "failed", "slow", "ignored", "rejected", "wasted_tokens", "consecutive_failures", "total_calls"), 17
    )
    cause = {
        "rule": "cusum",
        "value": 5.25,
        "threshold": 5.0,
        "sample": 12,
        "reporters": 2,
        "actor": None,
        "reason": None,
    }
    return json.dumps(
        {
            "circuit_id": tool,
            "tool_name": tool,
            "family": None,
            "scope": "tool",
            "state": "open",
            "previous_state": "closed",
            "version": version,
            "generation": version,
            "cause": cause,
            "changed_at": "2026-11-26T00:00:00Z",
            "open_until": "2026-11-26T00:01:00Z",
            "attempt": 1,
            "admitted_share": 1.0,
            "leases": [],
            "permits_left": 0,
            "counts": counts,
            "last_error": error,
            "mode": "enforce",
            "fallback": [],
        }
    ).encode()


async def publish(producer: Any, settings: Settings, tool: str, value: bytes) -> None:
    """Send one record to the partition of its tool, and wait until it is stored."""
    place = partition_of(tool, settings.topic_partitions)
    await producer.send_and_wait(settings.topics.circuits, value, key=tool.encode(), partition=place)


def rss_kib(pid: int, field: str = "VmRSS") -> float:
    """Return a process's resident memory, or with ``VmHWM`` the most that it had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return float(line.split()[1])
    raise ValueError(field)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def quantile(values: list[float], percent: float) -> float:
    """Return the smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


async def measure(
    settings: Settings, clients: int, circuits: int, changes: int, idle_s: float = 20.0
) -> dict[str, float]:
    """Run the gateway and the clients. Return the figures."""
    found: dict[str, float] = {"clients": clients, "circuits": circuits}
    await ensure_topics(settings)
    async with AsyncExitStack() as stack:
        producer = AIOKafkaProducer(**settings.kafka.options(), acks="all")
        await producer.start()
        stack.push_async_callback(producer.stop)
        for each in range(settings.topic_partitions):  # a new topic's leaders come one after the other
            await producer.send_and_wait(settings.topics.circuits, None, key=b"first", partition=each)
        for number in range(circuits):
            name = f"tool-{number}"
            place = partition_of(name, settings.topic_partitions)
            await producer.send(settings.topics.circuits, record(name, 1), key=name.encode(), partition=place)
        await producer.flush()
        gateway = await stack.enter_async_context(
            Party("gateway", settings.kafka_bootstrap_servers, settings.topic_prefix, core=0)
        )
        port = (await gateway.read())["port"]
        audience = await stack.enter_async_context(Party("audience", str(port), core=1))
        await audience.read()
        before = rss_kib(gateway.pid)
        found["gateway_kib"] = before
        cpu = cpu_s(gateway.pid)
        opened = await audience.ask("open", clients)
        found |= {"first_s": opened["seconds"], "snapshot_bytes": opened["bytes"] / clients}
        found["first_cpu_ms"] = 1000 * (cpu_s(gateway.pid) - cpu) / clients
        await asyncio.sleep(min(3.0, idle_s))
        found["kib_per_client"] = (rss_kib(gateway.pid) - before) / clients
        cpu, began = cpu_s(gateway.pid), time.monotonic()
        await asyncio.sleep(idle_s)
        found["idle_core"] = (cpu_s(gateway.pid) - cpu) / (time.monotonic() - began)
        cpu, began = cpu_s(gateway.pid), time.monotonic()
        sent = {}
        for number in range(changes):
            version = 2 + number
            sent[version] = time.monotonic()
            await publish(
                producer,
                settings,
                f"tool-{number % circuits}",
                record(f"tool-{number % circuits}", version, f"{MARK}{version};"),
            )
            await audience.ask(
                "wait", (number + 1) * clients
            )  # one at a time: changes that come together share a write
        heard = (await audience.ask("heard", changes * clients))["heard"]
        busy = cpu_s(gateway.pid) - cpu - (time.monotonic() - began) * found["idle_core"]
        found["event_cpu_us"] = 1e6 * busy / changes / clients
        each = [1000 * (at - sent[int(version)]) for version, times in heard.items() for at in times]
        last = [1000 * (max(times) - sent[int(version)]) for version, times in heard.items()]
        found |= {"received": len(each), "p50_ms": quantile(each, 50), "p99_ms": quantile(each, 99)}
        found |= {"last_p50_ms": quantile(last, 50), "last_p99_ms": quantile(last, 99)}
        for name, resume in (("resume", 1), ("snapshot", 0)):
            cpu = cpu_s(gateway.pid)
            storm = await audience.ask("storm", resume)
            found[f"{name}_storm_s"] = storm["seconds"]
            found[f"{name}_storm_kib"] = storm["bytes"] / 1024 / clients
            found[f"{name}_storm_cpu_ms"] = 1000 * (cpu_s(gateway.pid) - cpu) / clients
            found[f"{name}_storm_peak_mib"] = rss_kib(gateway.pid, "VmHWM") / 1024
        found["after_mib"] = rss_kib(gateway.pid) / 1024
    return found


def table(found: dict[str, float]) -> str:
    """Return the figures as a table."""
    one = {name: f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for name, value in found.items()}
    return f"""| {one["clients"]} streams, {one["circuits"]} circuits, one core for the gateway | |
|---|---|
| from the record to a client, p50 and p99 | {one["p50_ms"]} ms, {one["p99_ms"]} ms |
| from the record to the last client, p50 and p99 | {one["last_p50_ms"]} ms, {one["last_p99_ms"]} ms |
| CPU for one event to one client | {one["event_cpu_us"]} µs |
| memory for one client | {one["kib_per_client"]} KiB |
| the gateway without clients | {found["gateway_kib"] / 1024:,.0f} MiB |
| idle: heartbeats of all clients | {100 * found["idle_core"]:.1f} % of the core |
| all connect at once for a snapshot of {found["snapshot_bytes"] / 1e6:.2f} MB | {one["first_s"]} s, {one["first_cpu_ms"]} ms of CPU each |
| all come back at once and resume | {one["resume_storm_s"]} s, {one["resume_storm_cpu_ms"]} ms of CPU each, peak {one["resume_storm_peak_mib"]} MiB |
| all come back at once for a snapshot | {one["snapshot_storm_s"]} s, {one["snapshot_storm_cpu_ms"]} ms of CPU each, peak {one["snapshot_storm_peak_mib"]} MiB |
"""


def main() -> int:
    """Measure and print the table. Return 1 if an event was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fan_out", description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=2_000)
    parser.add_argument("--circuits", type=int, default=2_000)
    parser.add_argument("--changes", type=int, default=60)
    given = parser.parse_args()
    port = any_free_port()
    with (
        tempfile.TemporaryDirectory(prefix="switchgear-bench-") as folder,
        LocalKafka(Path(folder), port, start_timeout_s=240),
    ):
        settings = load_settings(kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="fan.", topic_partitions=4)
        found = asyncio.run(measure(settings, given.clients, given.circuits, given.changes))
    print(table(found))
    print(json.dumps(found))
    return int(found["received"] != given.clients * given.changes)


if __name__ == "__main__":
    sys.exit(main())
