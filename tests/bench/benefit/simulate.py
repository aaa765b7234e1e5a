"""One run: a number of agents, one arm, one fault, one seed. Two runs of the same cell are equal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.bench.benefit.agent import Agent, Result
from tests.bench.benefit.arms import arms
from tests.bench.benefit.arms.arm import ToolCaller
from tests.bench.benefit.faults import BEGINS_S, ENDS_S, FAULTS, LENGTH_S, MINUTE_S
from tests.bench.benefit.reaction import DEFAULT, Reaction
from tests.bench.benefit.shared_tools import SharedTools
from tests.bench.benefit.tasks import Task, World
from tests.bench.benefit.tokens import SharedCache, Spent
from tests.support.virtual_time import VirtualLoop

EVERY_S: Final = 60.0
"""A task comes to each agent once in this time, whether it has ended the last one or not."""


@dataclass(frozen=True)
class Cell:
    """What to simulate."""

    arm: str
    fault: str
    agents: int
    seed: int
    reaction: Reaction = DEFAULT


@dataclass
class Outcome:
    """The sums of one run. Those with ``exposed`` in their names are of the exposed tasks."""

    tasks: int = 0
    done: int = 0
    exposed: int = 0
    exposed_done: int = 0
    exposed_seconds: float = 0.0
    exposed_turns: int = 0
    exposed_spent: Spent = field(default_factory=Spent)
    spent: Spent = field(default_factory=Spent)
    broken_calls: int = 0
    calls: int = 0
    refused: int = 0
    refused_healthy: float = 0.0

    def add(self, result: Result) -> None:
        """Add a task."""
        self.tasks += 1
        self.done += result.done
        self.spent.add(result.spent)
        if result.exposed:
            self.exposed += 1
            self.exposed_done += result.done
            self.exposed_seconds += result.seconds
            self.exposed_turns += result.turns
            self.exposed_spent.add(result.spent)


def simulate(cell: Cell, world: World) -> Outcome:
    """Run a cell in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_simulate(cell, world))


async def _simulate(cell: Cell, world: World) -> Outcome:
    rng = Random(f"{cell.seed} {world.name}")
    target = rng.choice(world.often_used())
    calls_a_minute = world.uses(target) * cell.agents * MINUTE_S / EVERY_S
    tools = SharedTools(FAULTS[cell.fault](calls_a_minute), target)
    order = list(world.tasks)
    rng.shuffle(order)
    fleet = arms()[cell.arm].fleet()
    cache = SharedCache()
    outcome = Outcome()

    async def live(number: int, process: ToolCaller) -> None:
        agent = Agent(process, tools, cache, cell.reaction)
        for task, came_at in tasks_of(number, cell.agents, order, Random(f"{cell.seed} {number}")):
            await asyncio.sleep(max(0.0, came_at - asyncio.get_running_loop().time()))
            draws = Random(f"{cell.seed} {number} {came_at}")
            outcome.add(await agent.work(task, came_at, draws, exposed=exposed(task, came_at, target)))

    await asyncio.gather(*(live(number, fleet.process(number)) for number in range(cell.agents)))
    fleet.close()
    outcome.broken_calls, outcome.calls = tools.broken_calls, tools.calls
    outcome.refused, outcome.refused_healthy = tools.refused, tools.refused_healthy
    return outcome


def tasks_of(number: int, agents: int, order: list[Task], rng: Random) -> Iterator[tuple[Task, float]]:
    """Yield an agent's tasks and when they come. All arms get the same."""
    place, came_at = number, rng.uniform(0.0, EVERY_S)
    while came_at < LENGTH_S:
        yield order[place % len(order)], came_at
        place += agents
        came_at += EVERY_S


def exposed(task: Task, came_at: float, target: str) -> bool:
    """Return whether a task that needs the tool came while that was broken."""
    return BEGINS_S <= came_at < ENDS_S and any(step.tool == target for step in task.steps)
