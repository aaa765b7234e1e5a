"""The tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.bench.benefit import results
from tests.bench.benefit.estimate import Estimate, Parts, difference, mean, ratio
from tests.bench.benefit.plan import (
    BROKEN,
    HEALTHY,
    MAIN,
    SIZE_FAULTS,
    SIZES,
    SWEEP,
    SWEPT_ARMS,
    SWEPT_FAULTS,
    WAITED_ARMS,
    WAITED_FAULT,
    WAITS,
)
from tests.bench.benefit.reaction import DEFAULT, Reaction
from tests.bench.benefit.results import Results

BASE = "nothing"
"""The arm that the others are compared with."""


def tables(found: Results, arms: list[str]) -> Iterator[str]:
    """Yield each table with its heading."""
    yield _section(f"All faults, {MAIN} agents", _summary(found, arms))
    yield _section(f"Percent of the exposed tasks done, by fault, {MAIN} agents", _by_fault(found, arms, _done))
    yield _section(
        f"Billed tokens of an exposed task, as a ratio to nothing, by fault, {MAIN} agents",
        _by_fault(found, arms, _billed_ratio),
    )
    for fault in SIZE_FAULTS:
        yield _section(f"By the number of agents ({fault})", _by_size(found, arms, fault))
    yield _section("A day without an outage", _healthy(found, arms))
    yield _section(
        f"Agents that wait as a refusal says ({WAITED_FAULT}), {MAIN} agents",
        _reactions(found, [arm for arm in WAITED_ARMS if arm in arms], [WAITED_FAULT], WAITS),
    )
    yield _section(
        f"Other reactions ({', '.join(SWEPT_FAULTS)}), {MAIN} agents",
        _reactions(found, [arm for arm in SWEPT_ARMS if arm in arms], SWEPT_FAULTS, SWEEP),
    )


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    heading, *others = rows
    lines = [f"| {' | '.join(heading)} |", f"|{'---|' * len(heading)}"]
    return "\n".join([f"### {title}", "", *lines, *(f"| {' | '.join(cells)} |" for cells in others)])


def _summary(found: Results, arms: list[str]) -> list[list[str]]:
    rows = [
        [
            "arm",
            "exposed tasks done, %",
            "more than nothing, points",
            "billed tokens of one, thousand",
            "ratio to nothing",
            "rewritten, thousand",
            "seconds of one",
            "calls to the broken tool for one",
            "healthy calls refused, %",
            "other tasks done, %",
        ]
    ]
    for arm in arms:

        def of(measure: results.Measure, arm: str = arm) -> list[Parts]:
            return found.parts(measure, arm, BROKEN, MAIN)

        more = difference(of(results.tasks_done), of(results.tasks_done, BASE))
        to_base = ratio(of(results.billed), of(results.billed, BASE))
        rows.append(
            [
                arm,
                mean(of(results.tasks_done)).text(),
                "-" if arm == BASE else more.text(1),
                mean(of(results.billed)).text(1),
                "1" if arm == BASE else to_base.text(2),
                f"{mean(of(results.rewritten)).value:.1f}",
                mean(of(results.seconds)).text(),
                mean(of(results.broken_calls)).text(2),
                mean(of(results.healthy_refused)).text(2),
                mean(of(results.other_done)).text(1),
            ]
        )
    return rows


def _done(found: Results, arm: str, fault: str) -> str:
    return f"{mean(found.parts(results.tasks_done, arm, [fault], MAIN)).value:.0f}"


def _billed_ratio(found: Results, arm: str, fault: str) -> str:
    return f"{_to_base(found, arm, [fault], MAIN).value:.2f}"


def _to_base(found: Results, arm: str, faults: Sequence[str], agents: int) -> Estimate:
    return ratio(found.parts(results.billed, arm, faults, agents), found.parts(results.billed, BASE, faults, agents))


def _by_fault(found: Results, arms: list[str], cell: Callable[[Results, str, str], str]) -> list[list[str]]:
    return [["arm", *BROKEN], *([arm, *(cell(found, arm, fault) for fault in BROKEN)] for arm in arms)]


def _by_size(found: Results, arms: list[str], fault: str) -> list[list[str]]:
    rows = [
        [
            "agents",
            "arm",
            "exposed tasks done, %",
            "billed tokens, ratio to nothing",
            "calls to the broken tool for one",
            "healthy calls refused, %",
            "other tasks done, %",
        ]
    ]
    for agents in SIZES:
        for arm in arms:

            def of(measure: results.Measure, arm: str = arm, agents: int = agents) -> list[Parts]:
                return found.parts(measure, arm, [fault], agents)

            rows.append(
                [
                    str(agents),
                    arm,
                    mean(of(results.tasks_done)).text(),
                    "1" if arm == BASE else _to_base(found, arm, [fault], agents).text(2),
                    mean(of(results.broken_calls)).text(2),
                    mean(of(results.healthy_refused)).text(2),
                    mean(of(results.other_done)).text(1),
                ]
            )
    return rows


def _healthy(found: Results, arms: list[str]) -> list[list[str]]:
    rows = [["arm", "tasks done, %", "billed tokens of a task, thousand", "calls refused, %"]]
    for arm in arms:
        done = mean(found.parts(lambda run: (100.0 * run.done, run.tasks), arm, [HEALTHY], MAIN))
        billed = mean(found.parts(lambda run: (run.spent.billed / 1_000, run.tasks), arm, [HEALTHY], MAIN))
        refused = mean(found.parts(results.healthy_refused, arm, [HEALTHY], MAIN))
        rows.append([arm, done.text(1), billed.text(2), refused.text(2)])
    return rows


def _reactions(
    found: Results, arms: Sequence[str], faults: Sequence[str], reactions: Sequence[Reaction]
) -> list[list[str]]:
    rows = [["reaction", "arm", "exposed tasks done, %", "billed tokens, ratio to nothing", "seconds of one"]]
    for reaction in reactions:

        def of(measure: results.Measure, arm: str, reaction: Reaction = reaction) -> list[Parts]:
            return found.parts(measure, arm, faults, MAIN, reaction, found.swept())

        mark = " (default)" if reaction == DEFAULT else ""
        for arm in arms:
            done, seconds = mean(of(results.tasks_done, arm)).text(), mean(of(results.seconds, arm)).text()
            billed = "1" if arm == BASE else ratio(of(results.billed, arm), of(results.billed, BASE)).text(2)
            rows.append([f"{reaction.words()}{mark}", arm, done, billed, seconds])
    return rows
