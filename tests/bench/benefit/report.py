"""The tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.bench.benefit import results
from tests.bench.benefit.estimate import Estimate, difference, mean, ratio
from tests.bench.benefit.plan import BROKEN, HEALTHY, MAIN, SIZE_FAULTS, SIZES, SWEEP, SWEPT_ARMS, SWEPT_FAULTS
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
    yield _section(f"By the number of agents ({', '.join(SIZE_FAULTS)})", _by_size(found, arms))
    yield _section("A day without an outage", _healthy(found, arms))
    yield _section(
        f"Other reactions ({', '.join(SWEPT_FAULTS)}), {MAIN} agents",
        _sensitivity(found, [arm for arm in SWEPT_ARMS if arm in arms]),
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
        ]
    ]
    for arm in arms:

        def of(measure: results.Measure, arm: str = arm) -> list[results.Parts]:
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


def _by_size(found: Results, arms: list[str]) -> list[list[str]]:
    rows = [
        [
            "agents",
            "arm",
            "exposed tasks done, %",
            "billed tokens, ratio to nothing",
            "calls to the broken tool for one",
        ]
    ]
    for agents in SIZES:
        for arm in arms:
            done = mean(found.parts(results.tasks_done, arm, SIZE_FAULTS, agents))
            broken = mean(found.parts(results.broken_calls, arm, SIZE_FAULTS, agents))
            billed = _to_base(found, arm, SIZE_FAULTS, agents)
            rows.append([str(agents), arm, done.text(), "1" if arm == BASE else billed.text(2), broken.text(2)])
    return rows


def _healthy(found: Results, arms: list[str]) -> list[list[str]]:
    rows = [["arm", "tasks done, %", "billed tokens of a task, thousand", "calls refused, %"]]
    for arm in arms:
        done = mean(found.parts(lambda run: (100.0 * run.done, run.tasks), arm, [HEALTHY], MAIN))
        billed = mean(found.parts(lambda run: (run.spent.billed / 1_000, run.tasks), arm, [HEALTHY], MAIN))
        refused = mean(found.parts(results.healthy_refused, arm, [HEALTHY], MAIN))
        rows.append([arm, done.text(1), billed.text(2), refused.text(2)])
    return rows


def _sensitivity(found: Results, arms: list[str]) -> list[list[str]]:
    rows = [["reaction", "arm", "exposed tasks done, %", "billed tokens, ratio to nothing"]]
    for reaction in SWEEP:

        def of(measure: results.Measure, arm: str, reaction: Reaction = reaction) -> list[results.Parts]:
            return found.parts(measure, arm, SWEPT_FAULTS, MAIN, reaction, found.swept())

        mark = " (default)" if reaction == DEFAULT else ""
        for arm in arms:
            done = mean(of(results.tasks_done, arm))
            billed = ratio(of(results.billed, arm), of(results.billed, BASE))
            rows.append([f"{reaction.words()}{mark}", arm, done.text(), "1" if arm == BASE else billed.text(2)])
    return rows
