"""A live run: the same tasks with each arm, one after the other, while one tool is broken all the time."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from dataclasses import asdict
from random import Random

from tests.bench.benefit.arms import arms
from tests.bench.benefit.faults import FAULTS
from tests.bench.benefit.live.agent import LiveAgent
from tests.bench.benefit.live.chat import Model
from tests.bench.benefit.live.options import endpoint, model, problem
from tests.bench.benefit.shared_tools import SharedTools
from tests.bench.benefit.simulate import Outcome
from tests.bench.benefit.tasks import NoTasksError
from tests.bench.benefit.worlds import bfcl

HEADING = ("arm", "exposed tasks done", "billed tokens of one", "seconds of one", "calls to the broken tool", "refused")


def live(given: argparse.Namespace) -> int:
    """Run, print the table, write the figures, and return the exit code."""
    why = problem(given)
    if why is not None:
        print(why)
        return 2
    try:
        truths = [truth for truth in map(bfcl.GroundTruth, bfcl.scenarios()) if truth.repeatable()]
        described = bfcl.descriptions()
    except NoTasksError as error:
        print(f"No live run: {error}.")
        return 1
    found = asyncio.run(run_all(given, truths, described))
    print(f"Real tasks, {given.model}. {given.fault}.\n\n| {' | '.join(HEADING)} |\n|{'---|' * len(HEADING)}")
    for arm, outcome in found.items():
        print(f"| {' | '.join(_cells(arm, outcome))} |")
    given.out.mkdir(parents=True, exist_ok=True)
    written = {arm: asdict(outcome) for arm, outcome in found.items()}
    (given.out / "benefit_live.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
    return 0


async def run_all(
    given: argparse.Namespace,
    truths: list[bfcl.GroundTruth],
    described: dict[str, dict[str, dict[str, object]]],
) -> dict[str, Outcome]:
    """Return the outcome of each arm."""
    rng = Random(given.seed)
    target = rng.choice(sorted({_first_tool(truth, described) for truth in truths}))
    needing = [truth for truth in truths if target in _tools(truth, described)]
    others = [truth for truth in truths if truth not in needing]
    rng.shuffle(others)
    chosen = (needing + others)[: given.tasks]
    rng.shuffle(chosen)
    async with endpoint(given) as client:
        chat = model(given, client)
        return {arm: await _run(given, arm, chat, target, chosen, described) for arm in given.arms}


async def _run(
    given: argparse.Namespace,
    arm: str,
    chat: Model,
    target: str,
    truths: list[bfcl.GroundTruth],
    described: dict[str, dict[str, dict[str, object]]],
) -> Outcome:
    tools = SharedTools(FAULTS[given.fault](given.agents), target, (0.0, math.inf))
    fleet = arms()[arm].fleet()
    outcome = Outcome()
    waiting = list(truths)

    async def agent(number: int) -> None:
        one = LiveAgent(chat, fleet.process(number), tools, described)
        while waiting:
            truth = waiting.pop(0)
            rng = Random(f"{given.seed} {truth.scenario.task_id}")
            outcome.add(await one.work(truth, rng, exposed=target in _tools(truth, described)))

    await asyncio.gather(*map(agent, range(given.agents)))
    fleet.close()
    outcome.broken_calls, outcome.calls = tools.broken_calls, tools.calls
    outcome.refused, outcome.refused_healthy = tools.refused, tools.refused_healthy
    return outcome


def _tools(truth: bfcl.GroundTruth, described: dict[str, dict[str, dict[str, object]]]) -> list[str]:
    scenario = truth.scenario
    api_of = {method: api for api in scenario.apis for method in described[api]}
    return [bfcl.tool_name(api_of[call.method], call.method) for call in scenario.calls]


def _first_tool(truth: bfcl.GroundTruth, described: dict[str, dict[str, dict[str, object]]]) -> str:
    return _tools(truth, described)[0]


def _cells(arm: str, outcome: Outcome) -> list[str]:
    exposed = max(1, outcome.exposed)
    return [
        arm,
        f"{outcome.exposed_done} of {outcome.exposed}",
        f"{outcome.exposed_spent.billed / exposed:,.0f}",
        f"{outcome.exposed_seconds / exposed:.0f}",
        str(outcome.broken_calls),
        str(outcome.refused),
    ]
