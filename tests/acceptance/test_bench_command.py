"""``python -m tests.bench`` as ``make bench`` runs it."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.bench import __main__ as bench
from tests.bench import guard_speed, plots
from tests.bench.peers import WAIT_S, let_through

TABLE = """Calls between opens

| rule | calls/s | 1% | 50% |
|---|---|---|---|
| Switchgear fleet | 0.1 | >200,000 | 24 |
| Polly | 10 | 2,353 (4/40 never) | never |

Calls to open

| rule | calls/s | 50% |
|---|---|---|
| Switchgear fleet | 0.1 | 26 |
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Return a folder for results, with a bench that takes a second and one that fails."""
    history, faults = tmp_path / "tiny.jsonl.gz", tmp_path / "faults.json"
    call = {"tool_name": "t", "status": "success", "execution_time_ms": 10, "recorded_at": "2022-08-22T03:52:30Z"}
    history.write_bytes(gzip.compress(b"\n".join([json.dumps(call).encode()] * 250)))
    faults.write_text("{}")
    good = bench.Bench("A good one", (str(history), str(faults), "--learn"))
    monkeypatch.setattr(
        bench,
        "BENCHES",
        {
            "breaker_nezha": good,
            "sink": bench.Bench("A bad one", ("not a number",)),
            "queries": bench.Bench("Needs", (), faults / "absent"),
        },
    )
    return tmp_path / "results"


def test_every_bench_of_the_folder_is_listed(capsys):
    assert bench.main(["--list"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {
        "breaker_speed",
        "guard_speed",
        "breaker_defaults",
        "breaker_nezha",
        "worker_bench",
        "sink",
        "fleet",
    } <= listed
    assert not {"plots", "nezha_policy", "__main__", "contenders"} & listed


def test_the_table_of_a_benchmark_is_shown_and_kept(capfd, tiny):
    assert bench.main(["breaker_nezha", "--out", str(tiny)]) == 0
    shown = capfd.readouterr().out
    assert "## A good one" in shown
    assert 'tools."t"' in shown
    assert 'tools."t"' in (tiny / "breaker_nezha.md").read_text()
    kept = json.loads((tiny / "breaker_nezha.json").read_text())
    assert (kept["title"], kept["exit_code"]) == ("A good one", 0)
    assert kept["machine"]["python"]
    assert json.loads((tiny / "run.json").read_text())["seconds"] == {"breaker_nezha": kept["seconds"]}


def test_every_bench_with_a_title_exists():
    assert set(bench.BENCHES) <= set(bench.present())


@pytest.mark.deep
def test_a_failing_benchmark_does_not_stop_the_next_and_is_reported_at_the_end(capfd, tiny):
    assert bench.main(["sink", "queries", "breaker_nezha", "--out", str(tiny)]) == 1
    shown = capfd.readouterr().out
    assert "FAILED with exit code 1" in shown
    assert "Not run: there is no absent." in shown
    assert 'tools."t"' in shown
    assert shown.endswith("Not run: queries. Failed: sink.\n")


def test_an_unknown_name_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit, match="2"):
        bench.main(["speed"])
    assert "there is no speed; there are breaker_speed, " in capsys.readouterr().err


def test_a_markdown_table_is_read_back():
    first, second = plots.tables(TABLE)
    assert first[0] == ["rule", "calls/s", "1%", "50%"]
    assert first[1][1] == ["Polly", "10", "2,353 (4/40 never)", "never"]
    assert second[1] == [["Switchgear fleet", "0.1", "26"]]
    assert [plots.number(cell) for cell in ("2,353 (4/40 never)", "never", ">200,000")] == [2353.0, None, 200_000.0]


def test_memory_is_drawn_by_the_rows_stored(tmp_path):
    table = "| rows stored | sink alone, MiB | with the engine, MiB |\n|---|---|---|\n| 0 | 165 | 415 |\n| 50,000 | 199 | 508 |\n"
    drawn = plots.draw("sink_memory", table, tmp_path)
    assert drawn is not None
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.deep
def test_only_tables_with_a_plot_are_drawn(tmp_path):
    drawn = plots.draw("breaker_defaults", TABLE, tmp_path)
    assert drawn is not None
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert plots.draw("sink", TABLE, tmp_path) is None


@pytest.mark.parametrize(
    ("make", "asynchronous"),
    [
        (guard_speed.switchgear_local, False),
        (guard_speed.switchgear_local, True),
        (guard_speed.switchgear_value, False),
    ],
)
def test_a_guard_lets_one_of_fifty_callers_through_when_the_wait_ends(make, asynchronous):
    assert let_through(make(WAIT_S), asynchronous) == 1
