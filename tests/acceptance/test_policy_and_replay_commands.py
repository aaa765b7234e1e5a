"""``switchgear policy`` and ``switchgear replay`` as a user runs them."""

from __future__ import annotations

import json

import pytest

from switchgear_cli.main import run
from tests.support.shared import REPOSITORY, shared_folder

POLICY = str(REPOSITORY / "deploy" / "policies" / "latency.toml")


def written(tmp_path, text):
    path = tmp_path / "p.toml"
    path.write_text(text)
    return str(path)


def test_the_policy_file_that_we_ship_is_valid(capsys):
    assert run(["policy", "check", POLICY]) == 0
    assert "valid, 22 tables" in capsys.readouterr().out


def test_a_wrong_policy_file_is_one_sentence_and_exit_code_one(capsys, tmp_path):
    assert run(["policy", "check", written(tmp_path, "[default]\njiter = 1\n")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "[default]: unknown key jiter. Did you mean jitter?" in error


def test_tables_that_only_three_together_make_impossible_are_found_by_check(capsys, tmp_path):
    tables = (
        '[tools."mcp:*"]\nsliding_window_type = "count"\n'
        '[tools."*db*"]\nsliding_window_size = 15\nminimum_number_of_calls = 5\n'
        '[tools."*-prod"]\nfailure_count = 20\n'
    )
    assert run(["policy", "check", written(tmp_path, tables)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "failure_count (20) is more than a window of 15 calls ever holds" in error
    assert all(pattern in error for pattern in ("mcp:*", "*db*", "*-prod"))


def test_show_says_where_each_value_came_from(capsys, tmp_path):
    path = written(tmp_path, '[tools."a*"]\njitter = 0.25\ncusum = "off"\n')
    assert run(["policy", "show", "abc", "--policy-file", path, "--no-live", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["policy"]["jitter"] == 0.25
    assert shown["sources"]["jitter"] == '[tools."a*"]'
    assert run(["policy", "show", "abc", "--policy-file", path, "--no-live"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["jitter", "0.25", '[tools."a*"]'] in lines
    assert ["cusum", "off", '[tools."a*"]'] in lines


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "calls", "failed"), [("agent_calls_tau_airline", 1164, 73), ("agent_calls_livemcp", 814, 14)]
)
def test_the_agent_calls_replay_with_a_stamped_clock(capsys, name, calls, failed):
    path = str(shared_folder() / "data" / f"{name}.jsonl.gz")
    assert run(["replay", path, "--stamp", "1"]) == 0
    first = capsys.readouterr().out
    summary = json.loads(first.splitlines()[-1])["summary"]
    assert (summary["calls"], summary["failed"], summary["stamped"]) == (calls, failed, calls)
    assert run(["replay", path, "--stamp", "1"]) == 0
    assert capsys.readouterr().out == first


@pytest.mark.shared
def test_two_policies_are_replayed_side_by_side(capsys, tmp_path):
    path = str(shared_folder() / "data" / "agent_calls_tau_airline.jsonl.gz")
    never = written(tmp_path, '[default]\ncusum = "off"\nfailure_rate_threshold = "off"\n')
    assert run(["replay", path, "--stamp", "1", "--compare", never, "--summary-only"]) == 0
    ours, other = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (ours["policy"], other["policy"]) == ("default", never)
    assert ours["summary"]["refused"]["failed"] > 0
    assert other["summary"]["refused"]["calls"] == other["summary"]["opens"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "calls.jsonl is empty. Write one execution as a JSON object on each line."),
        ("\n \n", "calls.jsonl is empty."),
        ("{}\n[1]\n", "calls.jsonl holds no execution. Line 1: "),
        ("tool,status\nsearch,success\n", "calls.jsonl holds no execution. Line 1: the message is not JSON"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--summary-only"], ["--compare", POLICY]])
def test_a_file_that_holds_no_execution_is_an_error(capsys, tmp_path, text, message, more):
    path = tmp_path / "calls.jsonl"
    path.write_text(text)
    assert run(["replay", str(path), *more]) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_file_with_one_execution_is_replayed(capsys, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_text('{"tool_name": "a", "status": "rejected", "recorded_at": "2026-11-21T10:00:00Z"}\nnonsense\n')
    assert run(["replay", str(path), "--policy-file", POLICY]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["policy"], line["summary"]["lines"], line["summary"]["invalid"]) == (POLICY, 2, 1)


def test_check_takes_its_file_by_position_by_option_and_from_the_settings(capsys, monkeypatch):
    for line in (["policy", "check", POLICY], ["policy", "check", "--policy-file", POLICY]):
        assert run(line) == 0
    monkeypatch.setenv("SWITCHGEAR_POLICY_FILE", POLICY)
    assert run(["policy", "check"]) == 0
    assert capsys.readouterr().out.count("valid, 22 tables") == 3


@pytest.mark.shared
def test_a_history_without_instants_is_refused_with_what_to_do(capsys):
    path = str(shared_folder() / "data" / "agent_calls_livemcp.jsonl.gz")
    assert run(["replay", path]) == 1
    assert "Line 1 has no recorded_at. Give --stamp SECONDS" in capsys.readouterr().err
