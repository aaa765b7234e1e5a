"""The reading commands against the real API on a real port, over the real engine."""

import asyncio
import io
import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_cli.main import run
from switchgear_schemas.circuit import Cause, Circuit
from tests.support import processes
from tests.support.engine import call, store_calls, store_circuits
from tests.support.limits import READY_S
from tests.support.table import table


@pytest.fixture
def filled(store, api_url):
    now = datetime.now(UTC)

    async def fill():
        await store_calls(
            store,
            [
                *[call("mcp:search", execution_time_ms=100)] * 12,
                *[call("mcp:search", "error", error_type="KeyError", error_message="no city 7", execution_time_ms=9)]
                * 8,
                call("mcp:slow", execution_time_ms=7000),
            ],
        )
        await store_circuits(
            store,
            [
                Circuit(
                    circuit_id="mcp:search", tool_name="mcp:search", state=state, previous_state=previous,
                    version=n + 1, generation=n, changed_at=now - timedelta(minutes=9 - n), cause=cause,
                )
                for n, (state, previous, cause) in enumerate(
                    (
                        ("closed", None, None),
                        ("open", "closed", Cause(rule="cusum", value=11.99, threshold=11.99, sample=8, failed=7)),
                        ("half_open", "open", Cause(rule="wait_elapsed")),
                        ("closed", "half_open", Cause(rule="probe_succeeded", value=1, threshold=1, sample=1)),
                    )
                )
            ],
        )  # fmt: skip

    asyncio.run(fill())
    return api_url


def output_of(capsys, *arguments, code=0) -> str:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.err == "" or code
    return captured.err if code else captured.out


def test_tools_command_lists_every_tool_with_its_status(filled, capsys):
    shown = output_of(capsys, "tools")
    assert "mcp:search" in shown
    assert "unhealthy" in shown
    assert "60.0 %" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_tool_reports_one_tool(filled, capsys):
    shown = output_of(capsys, "tool", "mcp:search", "--hours", "2")
    for part in ("unhealthy", "over the last 2 hours", "KeyError", "no city <n>", "closed", "What to do", "p95"):
        assert part in shown


def test_circuits_show_that_one_has_opened_and_closed(filled, capsys):
    shown = output_of(capsys, "circuits").splitlines()
    row = next(line for line in shown if line.startswith("mcp:search"))
    without_clocks = re.sub(r" \([^)]*Z\)", "", " ".join(row.split()))
    assert without_clocks == "mcp:search closed 6 min ago 1 8 min ago 6 min ago the probe call succeeded"
    history = output_of(capsys, "circuits", "--history")
    assert history.index("half open → closed") < history.index("closed → open")
    assert "7 of the last 8 calls failed" in " ".join(history.split())
    assert output_of(capsys, "circuits", "mcp:search").splitlines() == history.splitlines()


@pytest.fixture
def refusing(store, api_url):
    """Two processes of one service refuse a tool on their own evidence; the fleet has no circuit."""
    metadata = {
        "refused": 3, "refused_by": "local", "state": "open", "scope": "tool", "retry_after_s": 300.0,
        "cause": {"rule": "consecutive_failures", "value": 5.0, "threshold": 5.0, "sample": 5, "failed": 5},
    }  # fmt: skip
    calls = [
        call("mcp:weather:get_forecast", "rejected", emitter_id=each, service="planner", metadata=metadata)
        for each in ("p1", "p2")
    ]
    asyncio.run(store_calls(store, calls))
    return api_url


@pytest.mark.parametrize("arguments", [["circuits"], ["tool", "mcp:weather:get_forecast"]])
def test_circuits_that_processes_opened_are_shown_with_what_they_mean(refusing, capsys, arguments):
    shown = " ".join(output_of(capsys, *arguments).split())
    for part in (
        "Fleet: no circuit is open.",
        "Opened by processes on their own evidence (last 10 minutes)",
        "mcp:weather:get_forecast open planner 2 6",
        "refuses calls by its own circuit, not by the fleet's",
    ):
        assert part in shown


def test_programs_read_the_circuits_that_processes_opened(refusing, capsys):
    answer = json.loads(output_of(capsys, "circuits", "--json"))
    assert answer["circuits"] == []
    (local,) = answer["local_circuits"]
    assert (local["tool_name"], local["processes"], local["refusals"]) == ("mcp:weather:get_forecast", 2, 6)
    assert local["cause"]["value"] == 5.0


def test_slow_lists_the_slow_calls_only(filled, capsys):
    shown = output_of(capsys, "slow")
    assert "mcp:slow" in shown
    assert "mcp:search" not in shown
    assert "mcp:search" in output_of(capsys, "slow", "--threshold-ms", "50", "--limit", "20")
    assert output_of(capsys, "slow", "--threshold-ms", "9000").strip() == "No call took longer than 9.00 s."


def test_errors_command_lists_the_latest_errors(filled, capsys):
    shown = output_of(capsys, "errors", "--limit", "3")
    assert shown.count("KeyError") == 3
    nothing, newest = output_of(capsys, "errors", "--tool", "mcp:slow").strip().splitlines()
    assert nothing == "No errors are stored."
    assert re.fullmatch(r"The newest stored event came \d+ (s|min) ago\.", newest)


def test_sql_prints_both_numbers_plainly(filled, capsys):
    shown = output_of(capsys, "sql", "SELECT count(), uniqExact(metric_id) FROM tool_metrics")
    assert shown.splitlines()[2].split() == ["21", "3"], "the fixture repeats three events"
    assert output_of(capsys, "sql", "SELECT 110649, 110649").splitlines()[2].split() == ["110649", "110649"]


def test_sql_reads_standard_input_and_keeps_its_row_limit(filled, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT number FROM numbers(9)"))
    shown = output_of(capsys, "sql", "-")
    assert "only the first 5 rows" in shown


@table(
    ("arguments", "key"),
    [
        (["tools"], "tool_reports"),
        (["tool", "mcp:search"], "report"),
        (["circuits"], "circuits"),
        (["circuits", "--history"], "history"),
        (["slow"], "executions"),
        (["errors"], "errors"),
        (["sql", "SELECT 1"], "rows"),
    ],
)
def test_json_is_the_answer_of_the_api(filled, capsys, arguments, key):
    content = json.loads(output_of(capsys, *arguments, "--json"))
    assert content[key]


@table("arguments", [["tools"], ["circuits"], ["circuits", "--history"], ["slow"], ["errors"]])
def test_command_on_an_empty_store_succeeds_and_says_so(api_url, capsys, arguments):
    assert output_of(capsys, *arguments).startswith("No ")


@table(
    ("arguments", "word"),
    [
        (["tool", "nobody"], "nobody"),
        (["circuits", "nobody"], "nobody"),
        (["tools", "--hours", "100000"], "hours"),
        (["errors", "--limit", "100000"], "limit"),
        (["slow", "--threshold-ms", "-1"], "threshold_ms"),
        (["sql", "SELEC 1"], "Syntax error"),
        (["sql", "DROP TABLE tool_metrics"], "Only reading"),
        (["sql", ""], "empty"),
    ],
)
def test_what_the_api_refuses_is_one_sentence_and_exit_code_one(api_url, capsys, arguments, word):
    sentence = output_of(capsys, *arguments, code=1)
    assert word in sentence
    assert sentence.startswith("switchgear: ")
    assert len(sentence.splitlines()) == 1


@table("command", [["tools"], ["tool", "x"], ["circuits"], ["slow"], ["errors"], ["sql", "SELECT 1"]])
def test_a_missing_api_is_one_sentence_with_what_to_do_and_exit_code_one(capsys, tmp_path, monkeypatch, command):
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    sentence = output_of(capsys, *command, "--api-url", "http://127.0.0.1:9", code=1)
    assert "cannot be reached" in sentence
    assert "switchgear up" in sentence
    assert len(sentence.splitlines()) == 1


def test_wrong_usage_is_exit_code_two(capsys):
    assert run(["tools", "--hours", "many"]) == 2
    assert run(["sql"]) == 2


@pytest.mark.deep
def test_the_installed_command_prints_rows_to_a_pipe(filled):
    query = "SELECT count() AS n, uniqExact(metric_id) AS d FROM tool_metrics"
    done = subprocess.run(
        [sys.executable, "-m", "switchgear_cli", "sql", query, "--api-url", filled],
        capture_output=True, text=True, timeout=READY_S, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[2].split() == ["21", "3"]
    assert done.stderr == ""


@pytest.mark.deep
def test_options_may_stand_before_a_query_and_a_query_may_begin_with_a_comment(filled, capsys):
    assert json.loads(output_of(capsys, "sql", "--json", "SELECT 1"))["rows"] == [[1]]
    assert json.loads(output_of(capsys, "sql", "-- one\nSELECT 1", "--json"))["rows"] == [[1]]


def test_retention_is_changed_in_the_store_of_the_running_api_and_nowhere_else(api_url, store, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    folder = str(store.location.folder)
    query = "SELECT default_expression FROM system.columns WHERE table = 'tool_metrics' AND name = 'retention_days'"

    def retention(*arguments, code=0, **variables):
        done = processes.run("retention", *arguments, extra={"SWITCHGEAR_API_URL": api_url} | variables)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    said, _, row = retention("set", "41").splitlines()
    assert said == f"Rows are kept for 41 days now, in {folder} (by the API at {api_url})."
    assert row.split() == ["(all)", "41", "retention", "set"]
    assert asyncio.run(store.query(query)).result_rows == [("41",)]
    assert json.loads(retention("show", "--json")) == {
        "default_days": 41, "default_from": "retention set", "tenants": {}, "store": folder,
    }  # fmt: skip
    assert folder in retention("show")
    server = {"SWITCHGEAR_CLICKHOUSE_URL": "http://127.0.0.1:9/prod", "SWITCHGEAR_CLICKHOUSE_CONNECT_TIMEOUT_S": "1"}
    assert "127.0.0.1:9/prod" in retention("set", "42", code=1, **server), "a server that is named is what is changed"
    retention("reset", "--api-url", api_url, **server)
    assert asyncio.run(store.query(query)).result_rows == [("30",)]
    assert not (tmp_path / "home").exists()


def test_invalid_retention_is_one_sentence(api_url, capsys):
    assert "from 1 to 3650 days, got 0" in output_of(capsys, "retention", "set", "0", code=1)
    assert run(["retention", "set", "many"]) == 2
    assert run(["retention", "set", "7", "--api-url", api_url, "--clickhouse", "chdb:/x"]) == 2
