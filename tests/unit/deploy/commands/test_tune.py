"""``switchgear tune`` as a user runs it on a file."""

from __future__ import annotations

import json

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.main import FAILED, WRONG_USAGE, run
from tests.support.tuning import OUTAGES, START, recorded, written

pytestmark = pytest.mark.slow

FEW = ("--candidates", "4", "--processes", "1")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return written(recorded(), tmp_path_factory.mktemp("history") / "calls.jsonl")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return written(recorded(()), tmp_path_factory.mktemp("healthy") / "calls.jsonl")


def test_a_search_prints_a_table_and_writes_the_policy_and_the_plot(history, tmp_path, capsys):
    toml, plot, never = (tmp_path / name for name in ("proposed.toml", "tune.svg", "never.toml"))
    never.write_text('[default]\ncusum = "off"\nfailure_rate_threshold = "off"\n')
    options = ["--policy-file", str(never), "--toml", str(toml), "--plot", str(plot)]
    assert run(["tune", "sea*", str(history), *FEW, *options]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "\nProposed: " in printed.out
    assert PolicySet.load(toml).patterns == ("sea*",)
    assert run(["policy", "check", str(toml)]) == 0
    assert plot.read_text().startswith("<?xml")


@pytest.mark.deep
def test_the_same_seed_prints_the_same_json(history, capsys):
    printed = []
    for _ in range(2):
        assert run(["tune", "search", str(history), *FEW, "--seed", "5", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["tried"] == 6


def test_known_outages_are_read_from_a_file(history, tmp_path, capsys):
    path = tmp_path / "outages.json"
    path.write_text(json.dumps([{"start": START + start, "end": START + end} for start, end in OUTAGES[:3]]))
    assert run(["tune", "search", str(history), *FEW, "--outages", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (len(document["outages"]), document["outages_given"]) == (3, True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--toml", "p.toml"], "p.toml was not written. There is no proposal; the report says why."),
        (["--apply", "metrics-only"], "Nothing was set. There is no proposal; the report says why."),
    ],
)
def test_without_a_proposal_nothing_is_written_or_set(healthy, tmp_path, monkeypatch, capsys, more, message):
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "search", str(healthy), *more]) == FAILED
    printed = capsys.readouterr()
    assert "Too little evidence" in printed.out
    assert printed.err == f"switchgear: {message}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--toml", "p.yaml"], "--toml p.yaml does not end with .toml. Name the file e.g. proposed.toml."),
        (["--plot", "p.pdf"], "--plot p.pdf ends with neither .svg nor .png. Name the file e.g. tune.svg."),
        (["--plot", "gone/p.svg"], "--plot gone/p.svg: there is no folder gone. Make it first."),
        (["--since", "2h"], "--since and --until choose among the stored calls. Leave the file out."),
        (["--judge"], "--judge reads what is stored and proposes nothing. Leave out FILE,"),
        (["--outages", "gone.json"], "--outages gone.json can't be read: No such file or directory."),
        (["--candidates", "0"], "--candidates must be >= 1, got 0."),
        (["--second-usd", "-1"], "--second-usd must be >= 0, got -1."),
        (["--seed", "x"], "--seed 'x' is not a whole number. Write e.g. --seed 7."),
        (["--apply", "enforce"], "--apply 'enforce' is not one of metrics-only. Write e.g. --apply metrics-only."),
    ],
)
def test_an_impossible_option_is_named_with_the_way_out(history, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "search", str(history), *arguments]) == WRONG_USAGE
    assert message in capsys.readouterr().err


def test_a_glob_that_matches_nothing_is_an_error(history, capsys):
    assert run(["tune", "mcp:*", str(history)]) == FAILED
    assert "None of the history's 8,000 calls is of a tool that mcp:* matches." in capsys.readouterr().err
