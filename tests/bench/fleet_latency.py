"""From the failing call that trips the rule in one process to the refusal in twenty others, at 0, 5,000 and 20,000 events a second.

    python -m tests.bench.fleet_latency [--loads 0,5000,20000] [--observers 20] [--trips 40] [--plot docs/images/fleet_latency.svg]

One process makes the failing calls, each observer asks `try_acquire` whenever its follower learns of a circuit; the instants are of
CLOCK_MONOTONIC, which all processes of a machine share. Broker, worker, observers and load share the machine: the load is encoded
beforehand, sent in batches and runs at a low priority, and what it reached is in the table. The stages are from the broker's own
timestamps (1 ms): the failing call until its event is in the log, from there until the circuit's record is, from there until the refusal.
Exit code 1 where the p99 is above 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.bench.targets import exit_code
from tests.support.kafka import running_kafka
from tests.support.processes import Child, python, switchgear
from tests.support.recount import read_topic

TARGET_MS: Final = 100.0
FAILURES: Final = 3
SETTLE_S: Final = 3.0
PAUSE_S: Final = 0.25
LIMIT_S: Final = 20.0
POLICY: Final = f"""[default]
consecutive_failures = {FAILURES}
failure_rate_threshold = "off"
cusum = "off"
minimum_reporters = 1
wait_duration_in_open_state_s = 600
"""

OBSERVER: Final = """
import sys, threading, time
from switchgear import BreakerPolicy, Switchgear
gear = Switchgear(sys.argv[1], service="observer", topic_prefix=sys.argv[2], local_policies=BreakerPolicy(mode="disabled"))
def changed(view):
    if not gear.try_acquire(view.tool_name):
        print("refused", view.tool_name, time.monotonic(), time.time(), flush=True)
assert gear.start(60)
gear._follower.listeners.append(changed)
print("watching", flush=True)
threading.Event().wait()
"""

CALLER: Final = f"""
import sys, time
from switchgear import BreakerPolicy, Switchgear
gear = Switchgear(sys.argv[1], service="caller", topic_prefix=sys.argv[2], local_policies=BreakerPolicy(mode="disabled"))
assert gear.start(60)
for tool in sys.argv[3:]:
    for number in range({FAILURES}):
        permit = gear.try_acquire(tool)
        if number == {FAILURES - 1}:
            time.sleep(0.05)
            print("tripping", tool, time.monotonic(), time.time(), flush=True)
        permit.failure(ConnectionError("broken"))
    time.sleep({PAUSE_S})
gear.close()
"""


@dataclass
class Trip:
    """The instants at which one tool's circuit opens. They are wall-clock seconds except where stated."""

    called_monotonic: float
    called: float
    refused_monotonic: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    event_at: float = 0.0
    record_at: float = 0.0


@dataclass
class Result:
    """The results of one load, in milliseconds."""

    load: int
    reached: float
    trips: list[Trip]

    @property
    def samples(self) -> list[float]:
        """The time from the call to the refusal, for every trip and observer."""
        return sorted((at - trip.called_monotonic) * 1000 for trip in self.trips for at in trip.refused_monotonic)

    def stages(self) -> dict[str, list[float]]:
        """Return the medians of the stages."""
        return {
            "call to log": [(trip.event_at - trip.called) * 1000 for trip in self.trips],
            "log to record": [(trip.record_at - trip.event_at) * 1000 for trip in self.trips],
            "record to refusal": [(at - trip.record_at) * 1000 for trip in self.trips for at in trip.refused],
        }

    def line(self) -> str:
        """Return a row of the table."""
        samples = self.samples
        stages = " | ".join(f"{quantile(found, 50):.0f}, {quantile(found, 99):.0f}" for found in self.stages().values())
        return (
            f"| {self.load:,} | {self.reached:,.0f} | {len(self.trips)} x {len(samples) // max(1, len(self.trips))} | "
            f"{quantile(samples, 50):.1f} | {quantile(samples, 99):.1f} | {samples[-1]:.1f} | {stages} |"
        )


def quantile(values: list[float], percent: int) -> float:
    """Return the smallest value that ``percent`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, (len(ordered) * percent + 99) // 100 - 1)]


def _lines(child: Child, word: str) -> Iterator[list[str]]:
    for line in child.output().splitlines():
        parts = line.split()
        if parts[:1] == [word]:
            yield parts[1:]


@contextmanager
def _load(settings: Settings, rate: int, log: Path) -> Iterator[Child | None]:
    """Run the load generator at a rate; nothing for 0."""
    if not rate:
        yield None
        return
    names = [
        settings.kafka_bootstrap_servers,
        settings.topics.executions,
        str(settings.topic_partitions),
        str(rate),
    ]
    with python("from tests.bench.fleet_load import main; main()", *names, log=log) as child:
        child.wait_for_output("rate ")
        time.sleep(SETTLE_S)
        yield child


def measure(settings: Settings, load: int, trips: int, observers: list[Child], folder: Path) -> Result:
    """Measure one load. Every trip uses another tool."""
    tools = [f"trip-{load}-{number}" for number in range(trips)]
    with _load(settings, load, folder / f"load-{load}.log") as generator:
        warm_up = f"warm-up-{load}"  # connections, and the first record of a topic
        arguments = [settings.kafka_bootstrap_servers, settings.topic_prefix, warm_up, *tools]
        with python(CALLER, *arguments, log=folder / f"caller-{load}.log") as caller:
            caller.wait_for_exit(trips * 2 + 60)
            found = {tool: Trip(float(at), float(wall)) for tool, at, wall in _lines(caller, "tripping")}
        assert set(found) == {warm_up, *tools}, caller.output()
        del found[warm_up]
        _collect(observers, found)
        rates = [] if generator is None else [float(rate) for (rate,) in _lines(generator, "rate")]
    return Result(load, statistics.median(rates) if rates else 0.0, list(found.values()))


def _collect(observers: list[Child], trips: dict[str, Trip]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        for trip in trips.values():
            trip.refused_monotonic.clear()
            trip.refused.clear()
        for observer in observers:
            for tool, at, wall in _lines(observer, "refused"):
                if tool in trips:
                    trips[tool].refused_monotonic.append(float(at))
                    trips[tool].refused.append(float(wall))
        if all(len(trip.refused) == len(observers) for trip in trips.values()):
            return
        missing = {name: len(observers) - len(trip.refused) for name, trip in trips.items()}
        assert time.monotonic() < deadline, f"observers that never refused, by tool: {missing}"
        time.sleep(0.2)


async def stamp(settings: Settings, results: list[Result]) -> None:
    """Add the broker's timestamps of each trip's last failing call and of its open record."""
    by_tool = {f"trip-{result.load}-{number}": trip for result in results for number, trip in enumerate(result.trips)}
    for record in await read_topic(settings.kafka_bootstrap_servers, settings.topics.executions):
        trip = by_tool.get((record.key or b"").decode())
        if trip is not None and b'"rejected"' not in record.value:
            trip.event_at = max(trip.event_at, record.timestamp / 1000)
    for record in await read_topic(settings.kafka_bootstrap_servers, settings.topics.circuits):
        trip = by_tool.get((record.key or b"").decode())
        if trip is not None and not trip.record_at:
            trip.record_at = record.timestamp / 1000


def draw(results: list[Result], path: Path) -> None:
    """Draw the share of refusals by latency, one curve per load."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only here, and it need not be installed

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis: Any = figure.subplots()
    for result in results:
        samples = result.samples
        shares = [100 * (place + 1) / len(samples) for place in range(len(samples))]
        axis.step(samples, shares, where="post", label=f"{result.load:,} events/s beside it")
    axis.axvline(TARGET_MS, linestyle=":", color="grey", label=f"{TARGET_MS:.0f} ms")
    axis.set(xlabel="milliseconds from the failing call to the refusal", ylabel="% of the processes", xscale="log")
    axis.grid(visible=True, alpha=0.3)
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def run(given: argparse.Namespace) -> list[Result]:
    """Start broker, worker and observers once, and measure every load."""
    results: list[Result] = []
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "policies.toml").write_text(POLICY)
        settings = kafka.settings(policy_file=folder / "policies.toml", topic_partitions=12)
        asyncio.run(ensure_topics(settings))
        observers: list[Child] = []
        try:
            with switchgear("worker", log=folder / "worker.log", settings=settings) as worker:
                worker.wait_for_output("ready  ")
                for number in range(given.observers):
                    arguments = [settings.kafka_bootstrap_servers, settings.topic_prefix]
                    observers.append(python(OBSERVER, *arguments, log=folder / f"observer-{number}.log"))
                for observer in observers:
                    observer.wait_for_output("watching")
                results.extend(measure(settings, load, given.trips, observers, folder) for load in given.loads)
                asyncio.run(stamp(settings, results))
        finally:
            for observer in observers:
                observer.process.kill()
            for observer in observers:
                observer.process.wait()
    return results


def main() -> int:
    """Print the table, draw the plot; exit code 3 where a p99 misses the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--loads", type=lambda text: [int(part) for part in text.split(",")], default=[0, 5_000, 20_000]
    )
    parser.add_argument("--observers", type=int, default=20)
    parser.add_argument("--trips", type=int, default=40)
    parser.add_argument("--plot", type=Path, help="Where to draw the latencies, .svg or .png; needs matplotlib.")
    given = parser.parse_args()
    results = run(given)
    print("| events/s wanted | reached | trips x processes | p50 ms | p99 ms | max ms | call to log p50, p99 |", end="")
    print(" log to record | record to refusal |\n|---|---|---|---|---|---|---|---|---|")
    for result in results:
        print(result.line())
    if given.plot is not None:
        draw(results, given.plot)
    return exit_code(met=all(quantile(result.samples, 99) <= TARGET_MS for result in results))


if __name__ == "__main__":
    sys.exit(main())
