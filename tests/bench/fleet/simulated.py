"""A thousand processes in virtual time: the same agents and contenders, with the libraries' own code."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from random import Random
from typing import Any

from tests.bench.fleet.agent import Call, Clock, run_agent
from tests.bench.fleet.measures import measure
from tests.bench.fleet.outages import OUTAGES, SIMULATED, Outage
from tests.bench.fleet.place import Place, contender
from tests.bench.fleet.world import World

DRAIN_S = 60.0
"""Virtual time after the last call begins, in which it ends."""


def trial(name: str, outage: Outage, processes: int, seed: int) -> dict[str, Any]:
    """Simulate one outage with one contender, and return its measures."""
    entry, timing, world = contender(name), SIMULATED.of_round(seed), World(f"{outage.name} {seed}")
    if entry.virtual_time is not None:
        entry.virtual_time(world.wall)
    calls: list[Call] = []
    ended = 0

    def process(number: int) -> None:
        nonlocal ended
        guard = entry.guards(Place(number, timing, prefix="fleet:", world=world))("tool")
        rng = Random(f"{outage.name} {seed} {number}")
        clock = Clock(world.now, world.sleep)
        calls.extend(run_agent(number, guard, entry.refusals, outage, timing, rng, clock))
        ended += 1

    for number in range(processes):
        world.spawn(lambda number=number: process(number))
    world.agenda.run(timing.length_s + DRAIN_S)
    assert ended == processes, f"{name}: {ended} of {processes} processes ended"
    found = measure(calls, outage, timing, processes)
    return {"contender": name, "outage": outage.name, "round": seed, **asdict(found)}


def _trial(job: tuple[str, int, int, int]) -> dict[str, Any]:
    name, outage, processes, seed = job
    return trial(name, OUTAGES[outage], processes, seed)


def run(names: list[str], processes: int, rounds: int, cores: int) -> list[dict[str, Any]]:
    """Simulate every contender in every outage, with the same seeds."""
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(cores) as pool:
        for seed in range(rounds):
            jobs = [(name, number, processes, seed) for number in range(len(OUTAGES)) for name in names]
            found += pool.map(_trial, jobs)
            print(f"<!-- round {seed + 1} of {rounds} in virtual time -->", flush=True)
    return found
