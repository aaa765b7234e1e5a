"""The reading commands against the real API on a real port, over the real engine."""

import asyncio
import io
import json
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import uvicorn
from prometheus_client import CollectorRegistry

from switchgear_cli.main import run
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from switchgear_sinks.api import create_app
from tests.support.engine import call, store_calls, store_circuits


@pytest.fixture
def api_url(store, tmp_path, monkeypatch):
    """Uvicorn in a thread, as the sink serves it; SWITCHGEAR_API_URL names it."""
    app = create_app(store, Settings(sql_max_rows=5), registry=CollectorRegistry())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 10
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        monkeypatch.setenv("SWITCHGEAR_API_URL", url)
        monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
        yield url
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


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
                    version=n + 1, generation=n, changed_at=now - timedelta(minutes=9 - n), cause=Cause(rule="cusum"),
                )
                for n, (state, previous) in enumerate(
                    (("closed", None), ("open", "closed"), ("half_open", "open"), ("closed", "half_open"))
                )
            ],
        )  # fmt: skip

    asyncio.run(fill())
    return api_url


def told(capsys, *arguments, code=0) -> str:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.err == "" or code
    return captured.err if code else captured.out


def test_tools_lists_every_tool_with_its_verdict(filled, capsys):
    shown = told(capsys, "tools")
    assert "mcp:search" in shown
    assert "unhealthy" in shown
    assert "60.0 %" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_tool_reports_one_tool(filled, capsys):
    shown = told(capsys, "tool", "mcp:search", "--hours", "2")
    for part in ("unhealthy", "over the last 2 hours", "KeyError", "no city <n>", "closed", "What to do", "p95"):
        assert part in shown


def test_circuits_show_that_one_has_opened_and_closed(filled, capsys):
    row = next(line for line in told(capsys, "circuits").splitlines() if line.startswith("mcp:search"))
    assert row.split() == [
        "mcp:search",
        "closed",
        "6",
        "min",
        "ago",
        "1",
        "8",
        "min",
        "ago",
        "6",
        "min",
        "ago",
        "cusum",
    ]
    history = told(capsys, "circuits", "--history")
    assert history.index("half open → closed") < history.index("closed → open")
    assert told(capsys, "circuits", "mcp:search").splitlines() == history.splitlines()


def test_slow_lists_the_slow_calls_only(filled, capsys):
    shown = told(capsys, "slow")
    assert "mcp:slow" in shown
    assert "mcp:search" not in shown
    assert "mcp:search" in told(capsys, "slow", "--threshold-ms", "50", "--limit", "20")
    assert told(capsys, "slow", "--threshold-ms", "9000").strip() == "No call took longer than 9.00 s."


def test_errors_lists_the_latest(filled, capsys):
    shown = told(capsys, "errors", "--limit", "3")
    assert shown.count("KeyError") == 3
    assert told(capsys, "errors", "--tool", "mcp:slow").strip() == "No errors are stored."


def test_sql_prints_both_numbers_plainly(filled, capsys):
    shown = told(capsys, "sql", "SELECT count(), uniqExact(metric_id) FROM tool_metrics")
    assert shown.splitlines()[2].split() == ["21", "3"], "the fixture repeats three events"
    assert told(capsys, "sql", "SELECT 110649, 110649").splitlines()[2].split() == ["110649", "110649"]


def test_sql_from_standard_input_and_its_row_limit(filled, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT number FROM numbers(9)"))
    shown = told(capsys, "sql", "-")
    assert "only the first 5 rows" in shown


@pytest.mark.parametrize(
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
    content = json.loads(told(capsys, *arguments, "--json"))
    assert content[key]


@pytest.mark.parametrize("arguments", [["tools"], ["circuits"], ["circuits", "--history"], ["slow"], ["errors"]])
def test_nothing_stored_is_said_and_is_no_failure(api_url, capsys, arguments):
    assert told(capsys, *arguments).startswith("No ")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["tool", "nobody"], "nobody"),
        (["circuits", "nobody"], "nobody"),
        (["tools", "--hours", "0"], "hours"),
        (["errors", "--limit", "0"], "limit"),
        (["slow", "--threshold-ms", "-1"], "threshold_ms"),
        (["sql", "SELEC 1"], "Syntax error"),
        (["sql", "DROP TABLE tool_metrics"], "Only reading"),
        (["sql", ""], "empty"),
    ],
)
def test_what_the_api_refuses_is_one_sentence_and_exit_code_one(api_url, capsys, arguments, word):
    sentence = told(capsys, *arguments, code=1)
    assert word in sentence
    assert sentence.startswith("switchgear: ")
    assert len(sentence.splitlines()) == 1


@pytest.mark.parametrize("command", [["tools"], ["tool", "x"], ["circuits"], ["slow"], ["errors"], ["sql", "SELECT 1"]])
def test_no_api_is_one_sentence_with_the_way_out_and_exit_code_one(capsys, tmp_path, monkeypatch, command):
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    sentence = told(capsys, *command, "--api-url", "http://127.0.0.1:9", code=1)
    assert "cannot be reached" in sentence
    assert "switchgear up" in sentence
    assert len(sentence.splitlines()) == 1


def test_wrong_usage_is_exit_code_two(capsys):
    assert run(["tools", "--hours", "many"]) == 2
    assert run(["sql"]) == 2


def test_the_installed_command_prints_rows_to_a_pipe(filled):
    query = "SELECT count() AS n, uniqExact(metric_id) AS d FROM tool_metrics"
    done = subprocess.run(
        [sys.executable, "-m", "switchgear_cli", "sql", query, "--api-url", filled],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[2].split() == ["21", "3"]
    assert done.stderr == ""


def test_options_may_stand_before_a_query_and_a_query_may_begin_with_a_comment(filled, capsys):
    assert json.loads(told(capsys, "sql", "--json", "SELECT 1"))["rows"] == [[1]]
    assert json.loads(told(capsys, "sql", "-- one\nSELECT 1", "--json"))["rows"] == [[1]]
