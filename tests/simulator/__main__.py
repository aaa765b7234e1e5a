"""Simulate a fleet, and print one line per invariant. The exit code is 1 if an invariant is broken."""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import Final

from tests.simulator.healthy import CALLS_PER_S, check, steady
from tests.simulator.invariants.broken import InvariantBrokenError
from tests.simulator.paced import PacedScenario
from tests.simulator.scenario import Scenario
from tests.simulator.simulation import Simulation

HEALTHY_RATES: Final = (0.01, 0.02, 0.05)
CONTROL: Final = (0.15, 2_000_000)
"""A failure rate at which the detector sometimes opens, and the number of calls. It shows that the count works."""


def main(arguments: list[str] | None = None) -> int:
    """Run, and return the exit code."""
    standard = Scenario()
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=standard.seed, help="seed of the random generator (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, from --seed on (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=standard.processes, help="guards (default: %(default)s)")
    parser.add_argument("--tools", type=int, default=standard.tools, help="circuits (default: %(default)s)")
    parser.add_argument("--hours", type=float, default=standard.hours, help="virtual time (default: %(default)s)")
    parser.add_argument(
        "--calls-per-s",
        type=float,
        default=standard.calls_per_s,
        help="calls per second of the fleet (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, default=standard.workers, help="stream workers (default: %(default)s)")
    parser.add_argument(
        "--skew-s", type=float, default=standard.skew_s, help="how far clocks are off (default: %(default)s)"
    )
    parser.add_argument(
        "--far-skew-s",
        type=float,
        default=standard.far_skew_s,
        help="how far one clock in fifty is off, at most (default: %(default)s)",
    )
    parser.add_argument(
        "--healthy-hours",
        type=float,
        default=1.0,
        help="virtual time of a healthy tool under 1,000 calls/s, 0 for none (default: %(default)s)",
    )
    parser.add_argument(
        "--paced-hours",
        type=float,
        default=0.05,
        help="virtual time of a fleet that keeps rate limits, 0 for none (default: %(default)s)",
    )
    parser.add_argument("--once", action="store_true", help="do not run the first seed a second time to compare")
    chosen = parser.parse_args(arguments)
    try:
        for seed in range(chosen.seed, chosen.seed + chosen.runs):
            scenario = Scenario(
                seed=seed,
                processes=chosen.processes,
                tools=chosen.tools,
                hours=chosen.hours,
                calls_per_s=chosen.calls_per_s,
                workers=chosen.workers,
                skew_s=chosen.skew_s,
                far_skew_s=chosen.far_skew_s,
            )
            _run(scenario, twice=seed == chosen.seed and not chosen.once)
        if chosen.healthy_hours:
            _healthy(chosen.seed, chosen.healthy_hours)
        if chosen.paced_hours:
            _paced(chosen.seed, chosen.paced_hours)
    except InvariantBrokenError as error:
        print(error)
        return 1
    return 0


def _run(scenario: Scenario, *, twice: bool) -> None:
    started = time.process_time()
    simulation = Simulation(scenario).run()
    used = time.process_time() - started
    calls, faults = simulation.calls, simulation.faults.counts
    print(
        f"seed {scenario.seed}: {scenario.processes:,} processes, {scenario.tools} tools, {len(simulation.servers)} servers, {scenario.hours:g} h;"
        f" {calls.permitted:,} calls, {calls.refused:,} refused, {calls.foreign:,} unguarded;"
        f" {simulation.steps:,} steps in {used:.0f} s of CPU"
    )
    outages, dead = (sum(len(each.schedule.outages) for each in of) for of in (simulation.tools, simulation.servers))
    counts = [
        f"tool outages {outages}",
        f"server outages {dead}",
        *(f"{name} {count}" for name, count in faults.items()),
    ]
    print("  faults: " + ", ".join(counts))
    for line in simulation.audit.lines():
        print(f"  {line}")
    if twice:
        print(f"  {agreement(simulation.digest(), scenario)}")


def agreement(digest: str, scenario: Scenario) -> str:
    """Run the scenario once more, and return a line that says that both runs agree.

    Raises:
        InvariantBrokenError: The two logs or the two sequences of decisions differ.
    """
    again = Simulation(scenario).run()
    if again.digest() != digest:
        raise again.audit.histories.broken("two-runs-agree", "", f"{digest} and {again.digest()}")
    return f"two-runs-agree: held ({digest})"


def _healthy(seed: int, hours: float) -> None:
    rng = Random(seed)
    found = [steady(rate, int(hours * 3600 * CALLS_PER_S), rng) for rate in HEALTHY_RATES]
    found.append(steady(*CONTROL, rng))
    print("  " + check(found, f"python -m tests.simulator --seed {seed} --healthy-hours {hours}"))


def _paced(seed: int, hours: float) -> None:
    simulation = Simulation(PacedScenario(seed=seed, hours=hours)).run()
    quotas = [tool.quota for tool in simulation.tools if tool.quota is not None]
    taken, refused = (sum(getattr(each, name) for each in quotas) for name in ("taken", "refused"))
    print(
        f"  {simulation.audit.pace.line()}; of 20 processes, with faults: {taken:,} calls taken,"
        f" {refused:,} refused by the tools, {simulation.calls.refused:,} by the guards"
    )


if __name__ == "__main__":
    sys.exit(main())
