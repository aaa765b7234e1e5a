"""The outcomes of all cells, and what to measure on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from tests.bench.benefit.estimate import Parts
from tests.bench.benefit.reaction import DEFAULT, Reaction
from tests.bench.benefit.simulate import Cell, Outcome

Measure = Callable[[Outcome], Parts]


def tasks_done(run: Outcome) -> Parts:
    """Percent of the exposed tasks."""
    return 100.0 * run.exposed_done, run.exposed


def other_done(run: Outcome) -> Parts:
    """Percent of the tasks that were not exposed: those before and after the fault, and those that don't need the tool."""
    return 100.0 * (run.done - run.exposed_done), run.tasks - run.exposed


def billed(run: Outcome) -> Parts:
    """Thousands of tokens of uncached input, of an exposed task."""
    return run.exposed_spent.billed / 1_000, run.exposed


def rewritten(run: Outcome) -> Parts:
    """Thousands of tokens of an exposed task that were written into the cache once more."""
    return run.exposed_spent.rewritten / 1_000, run.exposed


def seconds(run: Outcome) -> Parts:
    """Seconds of an exposed task."""
    return run.exposed_seconds, run.exposed


def broken_calls(run: Outcome) -> Parts:
    """Calls to the broken tool, for each exposed task."""
    return run.broken_calls, run.exposed


def healthy_refused(run: Outcome) -> Parts:
    """Percent of the calls that would have been answered."""
    return 100.0 * run.refused_healthy, run.calls + run.refused_healthy


@dataclass(frozen=True)
class Run:
    """A cell, its world and its outcome."""

    cell: Cell
    world: str
    outcome: Outcome

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**dataclasses.asdict(self.cell), "world": self.world, "outcome": dataclasses.asdict(self.outcome)}


class Results:
    """All runs."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def add(self, cell: Cell, world: str, outcome: Outcome) -> None:
        """Add a run."""
        self.runs.append(Run(cell, world, outcome))

    def swept(self) -> set[int]:
        """Return the seeds of the runs with other reactions than the default."""
        return {run.cell.seed for run in self.runs if run.cell.reaction != DEFAULT}

    def parts(
        self,
        measure: Measure,
        arm: str,
        faults: Iterable[str],
        agents: int,
        reaction: Reaction = DEFAULT,
        seeds: Collection[int] | None = None,
    ) -> list[Parts]:
        """Return a measure's parts for each seed, the sums over the faults. Without ``seeds`` it takes all that were run."""
        wanted = set(faults)
        by_seed: dict[int, Parts] = {}
        for run in self.runs:
            cell = run.cell
            if seeds is not None and cell.seed not in seeds:
                continue
            if cell.arm == arm and cell.fault in wanted and cell.agents == agents and cell.reaction == reaction:
                above, below = measure(run.outcome)
                known = by_seed.get(cell.seed, (0.0, 0.0))
                by_seed[cell.seed] = known[0] + above, known[1] + below
        return [by_seed[seed] for seed in sorted(by_seed)]
