"""Probes per recovery: 1, 10 and 50 real processes hammer one shared tool while it recovers; beside them, peers that count per process.

    python -m tests.bench.fleet_probes [--processes 1,10,50] [--probes 1,3] [--recoveries 20] [--peers 50]

The tool is a server of this bench. It holds every call that reaches it after its mending until the number configured is there and 0.3 s
longer, so that one too many is seen, and counts them itself, whatever the callers believe. The callers' own breakers are off. A peer's
processes have a breaker each, five failures and the same wait: of those that probe one recovering tool, how many do? Exit code 1 where
a recovery had another number of probes than configured.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from switchgear_cli.topics import ensure_topics
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.processes import Child, python, switchgear
from tests.support.recovering import callers, policy_text, recoveries, until
from tests.support.shared_tool import SharedTool

PEER_WAIT_S: Final = 4.0
PEER_QUIET_S: Final = 0.5

PEER: Final = """
import socket, sys, time
name, port, wait = sys.argv[1:4]
if name == "pybreaker":
    import pybreaker
    breaker = pybreaker.CircuitBreaker(fail_max=5, reset_timeout=float(wait))
    guarded, refused = breaker.call, pybreaker.CircuitBreakerError
else:
    import circuitbreaker
    breaker = circuitbreaker.CircuitBreaker(failure_threshold=5, recovery_timeout=float(wait))
    guarded, refused = breaker.call, circuitbreaker.CircuitBreakerError
tool = socket.create_connection(("127.0.0.1", int(port)))
def call():
    tool.sendall(b"c")
    answer = tool.recv(1)
    if not answer:
        raise SystemExit
    if answer != b"+":
        raise ConnectionError
while True:
    try:
        guarded(call)
    except (refused, ConnectionError):
        pass
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Result:
    """The calls that reached the tool in each recovery of a run."""

    contender: str
    processes: int
    configured: int
    arrived: list[int]

    @property
    def exact(self) -> bool:
        """Whether every recovery had the configured number of probes."""
        return set(self.arrived) == {self.configured}

    def line(self) -> str:
        """Return a row of the table."""
        spread = ", ".join(f"{number} ({times} x)" for number, times in sorted(Counter(self.arrived).items()))
        return f"| {self.contender} | {self.processes} | {self.configured} | {len(self.arrived)} | {spread} |"


async def ours(kafka: RunningKafka, processes: int, probes: int, rounds: int, folder: Path) -> Result:
    """Run Switchgear with its own worker, topics and callers."""
    file = folder / "policies.toml"
    file.write_text(policy_text(probes))
    settings = kafka.settings(policy_file=file)
    await ensure_topics(settings)
    with switchgear("worker", log=folder / "worker.log", settings=settings) as worker:
        await asyncio.to_thread(worker.wait_for_output, "ready  ")
        async with SharedTool() as tool, callers(settings, tool, processes, folder):
            found = await recoveries(settings, tool, probes, rounds)
    assert not any(plain for _, plain in found), f"calls without a lease passed: {found}"
    return Result("Switchgear", processes, probes, [reached for reached, _ in found])


async def peer(name: str, processes: int, folder: Path) -> Result:
    """Run one recovery with processes that each have a breaker of a peer."""
    children: list[Child] = []
    async with SharedTool() as tool:
        try:
            for number in range(processes):
                arguments = [name, str(tool.port), str(PEER_WAIT_S)]
                children.append(python(PEER, *arguments, log=folder / f"{name}-{number}.log"))
            await until(lambda: tool.callers >= processes, "every caller connected")
            tool.state = "broken"
            calls = tool.calls
            await until(lambda: tool.calls >= calls + 5 * processes, "five failures each")
            recovery = tool.mend(processes + 1)  # more than there are: nothing ends the hold but its time
            await asyncio.sleep(PEER_WAIT_S + PEER_QUIET_S)
            arrived = min(recovery.arrived, processes)
        finally:
            for child in children:
                child.process.kill()
            for child in children:
                child.process.wait()
    return Result(f"{name}, a breaker a process", processes, 1, [arrived])


async def measure(given: argparse.Namespace) -> list[Result]:
    """Make every run, one after the other."""
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        with running_kafka() as kafka:
            for probes in given.probes:
                for processes in given.processes:
                    folder = Path(temporary) / f"{processes}-{probes}"
                    folder.mkdir()
                    results.append(await ours(kafka, processes, probes, given.recoveries, folder))
                    print(results[-1].line(), flush=True)
        for name in ("pybreaker", "circuitbreaker") if given.peers else ():
            results.append(await peer(name, given.peers, Path(temporary)))
            print(results[-1].line(), flush=True)
    return results


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> int:
    """Print the table; exit code 1 where a recovery was not exact."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=_numbers, default=[1, 10, 50])
    parser.add_argument("--probes", type=_numbers, default=[1, 3])
    parser.add_argument("--recoveries", type=int, default=20)
    parser.add_argument("--peers", type=int, default=50, help="Processes of the peers; 0 for none.")
    given = parser.parse_args()
    print("| breaker | processes | probes configured | recoveries | calls that reached the tool, a recovery |")
    print("|---|---|---|---|---|", flush=True)
    results = asyncio.run(measure(given))
    wrong = [result for result in results if result.contender == "Switchgear" and not result.exact]
    for result in wrong:
        print(f"\nNot exact: {result.arrived}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
