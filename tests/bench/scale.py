"""How many gateways, partitions and brokers a fleet needs, from the measured costs.

    python -m tests.bench.scale [--tools 2000] [--calls-per-process-s 0.2] [--direct 0.0] …

docs/scale.md explains the formulas. ``--help`` lists every cost. Put in what the benches print on your machine.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, fields
from typing import Final

SIZES: Final = (10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet and its costs. All costs are of one core."""

    processes: int = 10_000
    direct: float = 0.0
    """Share of the processes that use Kafka themselves. The others use a gateway."""
    tools: int = 2_000
    changes_per_tool_h: float = 12.0
    """Records of a circuit in an hour. The simulator has 12 with faults all the time."""
    seen: float = 1.0
    """Share of the changes that a client sees: it follows the tools that it uses."""
    calls_per_process_s: float = 0.2
    utilisation: float = 0.5
    """Share of a core, of memory or of connections that is planned for."""
    streams_per_core: int = 2_000
    """The most that was measured."""
    event_us: float = 93.0
    """CPU for one event to one client (fan_out)."""
    beat_us: float = 44.0
    """CPU for one idle client in a second (fan_out)."""
    stream_kib: float = 22.0
    gateway_mib: float = 66.0
    resume_ms: float = 1.35
    snapshot_ms: float = 5.2
    fetch_us: float = 860.0
    """A broker's CPU for one fetch (idle_followers)."""
    fetch_wait_s: float = 10.0
    partitions_of_circuits: int = 12
    broker_connections: int = 20_000
    broker_cores: int = 8
    post_us: float = 944.0
    """CPU for one call that a client posts alone (gateway --batch 1). In batches of 100 it is 18."""
    worker_events_s: float = 40_000.0
    """Events a second of one worker (worker_bench)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fleet needs."""

    changes_s: float
    events_s: float
    streams: int
    per_gateway: int
    gateways: int
    gateway_mib: float
    resume_s: float
    snapshot_s: float
    followers: int
    fetches_s: float
    connections_per_broker: int
    brokers: int
    partitions: int


def plan(fleet: Fleet) -> Plan:
    """Return what the fleet needs."""
    changes_s = fleet.tools * fleet.changes_per_tool_h / 3600
    events_s = fleet.processes * fleet.calls_per_process_s
    direct = round(fleet.processes * fleet.direct)
    streams = fleet.processes - direct
    per_stream_us = changes_s * fleet.seen * fleet.event_us + fleet.beat_us
    per_stream_us += fleet.calls_per_process_s * fleet.post_us
    per_gateway = max(1, min(fleet.streams_per_core, int(1e6 * fleet.utilisation / per_stream_us)))
    gateways = max(2, math.ceil(streams / per_gateway) + 1) if streams else 0  # one may be away
    others = max(1, gateways - 1)
    followers = direct + gateways
    # Every follower has two connections to each broker, and every sender one: more brokers don't make them fewer.
    connections = 2 * followers + direct + gateways
    # A record ends the wait of every follower's fetch, at the broker of its partition.
    fetches_s = followers * (1 / fleet.fetch_wait_s + changes_s)
    brokers = max(3, math.ceil(fetches_s * fleet.fetch_us / 1e6 / (fleet.utilisation * fleet.broker_cores)))
    return Plan(
        changes_s=changes_s,
        events_s=events_s,
        streams=streams,
        per_gateway=per_gateway,
        gateways=gateways,
        gateway_mib=fleet.gateway_mib + per_gateway * fleet.stream_kib / 1024,
        resume_s=per_gateway * fleet.resume_ms / 1000 / others,
        snapshot_s=per_gateway * fleet.snapshot_ms / 1000,
        followers=followers,
        fetches_s=fetches_s,
        connections_per_broker=connections,
        brokers=brokers,
        partitions=max(4, math.ceil(events_s / (fleet.utilisation * fleet.worker_events_s))),
    )


ROWS: Final = {
    "calls a second": "events_s",
    "changed circuits a second": "changes_s",
    "streams": "streams",
    "streams for each gateway (one core)": "per_gateway",
    "gateways, with one spare": "gateways",
    "memory of a gateway, MiB": "gateway_mib",
    "a gateway dies: the others have resumed its clients after, s": "resume_s",
    "a gateway gives all its clients a snapshot in, s": "snapshot_s",
    "followers at Kafka": "followers",
    "fetches a second": "fetches_s",
    "connections of each broker": "connections_per_broker",
    "brokers": "brokers",
    "partitions of the executions, and workers": "partitions",
}


def main() -> int:
    """Print the plan of three sizes."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for each in fields(Fleet):
        if each.name != "processes":
            parser.add_argument(
                f"--{each.name.replace('_', '-')}", type=type(each.default), default=each.default, help=" "
            )
    given = vars(parser.parse_args())
    plans = [plan(Fleet(processes=size, **given)) for size in SIZES]
    print("| processes | " + " | ".join(f"{size:,}" for size in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for title, name in ROWS.items():
        values = [getattr(each, name) for each in plans]
        print(
            f"| {title} | "
            + " | ".join(
                f"{value:,.1f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}" for value in values
            )
            + " |"
        )
    most = given["broker_connections"]
    for size, each in zip(SIZES, plans, strict=True):
        if each.connections_per_broker > most:
            print(
                f"\n{size:,} processes: more than {most:,} connections for each broker. Put more of them behind gateways."
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
