from pathlib import Path

import pytest

from tests.bench import plots
from tests.bench.benefit.plan import MAIN, SIZE_FAULTS, SWEEP, Plan
from tests.bench.benefit.reaction import DEFAULT
from tests.bench.benefit.report import tables
from tests.bench.benefit.results import Results
from tests.bench.benefit.simulate import Outcome
from tests.bench.benefit.tokens import Spent

pytestmark = pytest.mark.slow

ARMS = ["nothing", "Switchgear"]


def _results() -> Results:
    found = Results()
    for cell in Plan(seeds=2, alone=1, many=1, swept=1).cells(ARMS):
        done = 8 if cell.arm == "Switchgear" else 4
        spent = Spent(read=10_000 * done, written=1_000)
        found.add(
            cell,
            "small",
            Outcome(
                tasks=20, done=10 + done, exposed=10, exposed_done=done, exposed_spent=spent, spent=spent, calls=100
            ),
        )
    return found


def test_every_cell_of_a_plan_is_run_once():
    cells = list(Plan().cells(ARMS))
    assert len(set(cells)) == len(cells)
    assert {cell.agents for cell in cells} == {1, 10, 100}
    assert len({cell.reaction for cell in cells}) == len(SWEEP)
    assert {cell.agents for cell in cells if cell.reaction != DEFAULT} == {MAIN}


def test_the_tables_compare_each_arm_with_nothing():
    text = "\n".join(tables(_results(), ARMS))
    heading, rows = next(iter(plots.tables(text)))
    summary = {cells[0]: dict(zip(heading, cells, strict=True)) for cells in rows}
    assert summary["nothing"]["exposed tasks done, %"] == "40"
    assert summary["Switchgear"]["exposed tasks done, %"] == "80"
    assert summary["Switchgear"]["more than nothing, points"] == "40.0"
    assert summary["Switchgear"]["ratio to nothing"] == "1.76"
    assert summary["Switchgear"]["other tasks done, %"] == "100.0"


def test_each_fault_has_a_table_of_fleet_sizes():
    text = "\n".join(tables(_results(), ARMS))
    sizes = [rows for heading, rows in plots.tables(text) if heading[0] == "agents"]
    assert len(sizes) == len(SIZE_FAULTS)
    assert all([row[0] for row in rows] == ["1", "1", "10", "10", "100", "100"] for rows in sizes)


def test_agents_that_wait_as_told_are_compared_with_those_that_do_not():
    text = "\n".join(tables(_results(), ARMS))
    _, rows = list(plots.tables(text))[-2]
    assert {row[0] for row in rows} == {
        "again 0.42, obeys 0.9, waits 0, tries 5 (default)",
        "again 0.42, obeys 0.9, waits 0.5, tries 5",
        "again 0.42, obeys 0.9, waits 1, tries 5",
    }


def test_the_last_table_has_every_reaction_and_is_drawn(tmp_path: Path):
    text = "\n".join(tables(_results(), ARMS))
    _, rows = list(plots.tables(text))[-1]
    assert len(rows) == len(SWEEP) * len(ARMS)
    path = plots.draw("benefit", text, tmp_path)
    assert path is not None
    assert path.name == "benefit.svg"
    assert "<svg" in path.read_text(encoding="utf-8")
