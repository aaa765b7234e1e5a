"""A server with 40 tools dies under the traffic of 20 processes: how long until all of its tools are refused everywhere?

    python -m tests.bench.server_outage [--processes 20] [--tools 40] [--outages 5] [--calls-per-s 20]

It measures the fleet with server circuits, and the same fleet without (an empty ``family_pattern``), one after the other. The server is a
process of this bench that resets connections, and counts the calls that reach it after its recovery. The policies are the defaults, with a
wait of three seconds. A sample is the time from the first failed call of any process until one process is refused all tools, in
milliseconds of CLOCK_MONOTONIC, which all processes of a machine share. The calls to the dead server are those of all processes until then.
Exit code 1 where a recovery with server circuits had another number of calls than the one that the policy permits.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from switchgear_cli.topics import ensure_topics
from tests.bench.fleet_latency import quantile
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child, all_ended, python, switchgear
from tests.support.shared_tool import SharedTool
from tests.support.waiting import auntil

SERVER: Final = "mcp:github"
LIMIT_S: Final = 120.0
QUIET_S: Final = 2.0
POLICIES: Final = """[default]
wait_duration_in_open_state_s = 3

[family."mcp:*"]
wait_duration_in_open_state_s = 3
"""
CALLER: Final = """
import random, socket, sys, time
from switchgear import BreakerPolicy, Switchgear

port, brokers, prefix, pattern, server, count, pause = int(sys.argv[1]), *sys.argv[2:6], int(sys.argv[6]), float(sys.argv[7])
local = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=3)
gear = Switchgear(brokers, service="caller", topic_prefix=prefix, family_pattern=pattern, local_policies=local)
gear.start(60)
tools = [f"{server}:tool{number}" for number in range(count)]
refused, answered, failures, said = set(), set(), 0, ""
while True:
    for tool in random.sample(tools, count):
        time.sleep(pause * random.uniform(0.5, 1.5))
        permit = gear.try_acquire(tool)
        if not permit:
            refused.add(tool)
            answered.discard(tool)
        else:
            with socket.socket() as connection:
                try:
                    connection.settimeout(10)
                    connection.connect(("127.0.0.1", port))
                    connection.sendall(b"p" if permit.lease_id else b"c")
                    if not connection.recv(1):
                        raise ConnectionResetError("no answer")
                except OSError as error:
                    answered.discard(tool)
                    refused.discard(tool)
                    if not failures:
                        print("failed", time.monotonic(), flush=True)
                    failures += 1
                    permit.failure(error)
                else:
                    permit.success()
                    refused.discard(tool)
                    answered.add(tool)
        if len(refused) == count and said != "refused":
            said = "refused"
            print(said, time.monotonic(), failures, flush=True)
        if len(answered) == count and said != "answered":
            said, failures = "answered", 0
            print(said, time.monotonic(), flush=True)
"""


@dataclass
class Result:
    """The outages of one fleet."""

    name: str
    samples_ms: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    """Calls to the dead server in each outage."""
    recoveries: list[int] = field(default_factory=list)
    """Calls to the server in each recovery, until it was known to work."""

    def line(self) -> str:
        """Return a row of the table."""
        found = self.samples_ms
        return (
            f"| {self.name} | {len(self.recoveries)} x {len(found) // max(1, len(self.recoveries))} | {quantile(found, 50):,.0f} |"
            f" {quantile(found, 99):,.0f} | {sum(self.calls) / len(self.calls):,.0f} | {', '.join(map(str, self.recoveries))} |"
        )


def _last(child: Child, word: str) -> list[float]:
    """Return the numbers of the newest line that begins with ``word``."""
    lines = [line.split()[1:] for line in child.output().splitlines() if line.startswith(f"{word} ")]
    return [float(number) for number in lines[-1]] if lines else [0.0]


async def _all_say(children: list[Child], word: str, after: float) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not all(_last(child, word)[0] > after for child in children):
        assert all(child.alive for child in children), [child.output() for child in children if not child.alive]
        assert time.monotonic() < deadline, f"not all processes said {word}"
        await asyncio.sleep(0.1)


async def _outage(server: SharedTool, children: list[Child], result: Result) -> None:
    await _all_say(children, "answered", max(_last(child, "refused")[0] for child in children))
    server.die()
    died = time.monotonic()
    await _all_say(children, "refused", died)
    first = min(at for child in children if (at := _last(child, "failed")[0]) > died)
    refused = [_last(child, "refused") for child in children]
    result.samples_ms += [(at - first) * 1000 for at, _ in refused]
    result.calls.append(round(sum(failures for _, failures in refused)))
    await asyncio.sleep(QUIET_S)
    recovery = server.rise(1)
    await auntil(recovery.over.is_set, HAPPEN_S, lambda: "the probe of the recovered server")
    result.recoveries.append(recovery.arrived)


async def measure(kafka: RunningKafka, name: str, pattern: str, given: argparse.Namespace, folder: Path) -> Result:
    """Run one fleet with a worker and topics of its own."""
    (folder / "policies.toml").write_text(POLICIES)
    settings = kafka.settings(policy_file=folder / "policies.toml", family_pattern=pattern)
    await ensure_topics(settings)
    result = Result(name)
    pause = str(1 / given.calls_per_s)
    async with SharedTool() as server:
        worker = switchgear("worker", log=folder / "worker.log", settings=settings)
        arguments = (
            str(server.port), settings.kafka_bootstrap_servers, settings.topic_prefix, pattern, SERVER, str(given.tools), pause,
        )  # fmt: skip
        children = [python(CALLER, *arguments, log=folder / f"{number}.log") for number in range(given.processes)]
        with all_ended(worker, *children):
            await asyncio.to_thread(worker.wait_for_output, "ready  ")
            for _ in range(given.outages):
                await _outage(server, children, result)
    return result


async def run(given: argparse.Namespace) -> list[Result]:
    """Measure both fleets, one after the other."""
    results = []
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        for name, pattern in (("server circuits", "mcp:*:*"), ("without", "")):
            folder = Path(tempfile.mkdtemp(dir=temporary))
            results.append(await measure(kafka, name, pattern, given, folder))
            print(results[-1].line(), flush=True)
    return results


def main() -> int:
    """Print the table; exit code 1 where a recovery with server circuits was not exact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--tools", type=int, default=40)
    parser.add_argument("--outages", type=int, default=5)
    parser.add_argument("--calls-per-s", type=float, default=20.0, help="Of each process, over all tools.")
    given = parser.parse_args()
    print(
        "| fleet | outages x processes | p50 ms | p99 ms | calls to the dead server | calls to the server, a recovery |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    with_circuits, _ = asyncio.run(run(given))
    return 0 if set(with_circuits.recoveries) == {1} else 1


if __name__ == "__main__":
    sys.exit(main())
