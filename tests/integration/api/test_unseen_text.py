"""A tool named with bidirectional marks, zero-width characters and controls, at every command that shows it: the real API and engine."""

import asyncio
import json
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest

from switchgear_cli.main import run
from switchgear_schemas.circuit import Cause, Circuit
from tests.support.deep import some
from tests.support.engine import call, store_calls, store_circuits
from tests.support.table import table
from tests.support.unseen import HOSTILE, unseen

HIDDEN = "mcp:pay\u200b"
"""Looks like ``mcp:pay`` where it is not escaped."""
BASE = "tool_name, error_message, user_id"


@pytest.fixture
def filled(store, api_url):
    now = datetime.now(UTC)
    failed = {"error_type": HOSTILE, "error_message": HOSTILE, "user_id": HOSTILE, "execution_time_ms": 9000}
    local = {
        "refused": 3, "refused_by": "local", "state": "open", "scope": "tool", "retry_after_s": 300.0,
        "cause": {"rule": "consecutive_failures", "value": 5.0, "threshold": 5.0, "sample": 5, "failed": 5},
    }  # fmt: skip

    async def fill():
        calls = [call(HOSTILE), *[call(HOSTILE, "error", **failed)] * 3, call("mcp:pay"), call(HIDDEN)]
        refused = call(HOSTILE, "rejected", service=HOSTILE, emitter_id="e", metadata=local)
        await store_calls(store, [*calls, refused])
        cause = Cause(rule="command", actor=HOSTILE, reason=HOSTILE)
        named = [HOSTILE, "mcp:pay", HIDDEN]
        await store_circuits(
            store,
            [
                Circuit(
                    circuit_id=each, tool_name=each, state="forced_open", previous_state="closed", version=1,
                    generation=1, changed_at=now, cause=cause,
                )
                for each in named
            ],
        )  # fmt: skip

    asyncio.run(fill())
    return api_url


READS = [
    ["tools"],
    ["tools", "--json"],
    ["tool", HOSTILE],
    ["tool", HOSTILE, "--json"],
    ["circuits"],
    ["circuits", "--json"],
    ["circuits", "--history"],
    ["circuits", HOSTILE],
    ["slow"],
    ["slow", "--json"],
    ["errors"],
    ["errors", "--json"],
    ["sql", f"SELECT {BASE} FROM tool_metrics"],
    ["sql", f"SELECT {BASE} FROM tool_metrics", "--json"],
    ["sql", f"SELECT 1 AS `{HOSTILE}`"],
    ["sql", f"SELECT groupArray(tool_name), map(tool_name, 1) FROM tool_metrics GROUP BY tool_name -- {HOSTILE}"],
    ["sql", f"SELECT `{HOSTILE}`"],
    ["sql", f"SELECT '{HOSTILE}' :: Int8"],
    ["tool", f"{HOSTILE}x"],
    ["circuits", f"{HOSTILE}x"],
    ["replay", "--from-clickhouse"],
    ["retention", "set", "7", "--tenant", HOSTILE],
    ["retention", "set", "7", "--tenant", "[/]"],
    ["retention", "show"],
]


@pytest.mark.parametrize("columns", some(["", "100"], 1))
@table("arguments", READS)
def test_no_invisible_character_reaches_the_reader_of_any_command(arguments, columns, filled, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    run(arguments)
    captured = capsys.readouterr()
    assert captured.out + captured.err
    assert not unseen(captured.out + captured.err)


@pytest.mark.parametrize(
    "command", some([["tools"], ["circuits"], ["sql", "SELECT DISTINCT tool_name FROM tool_metrics"]], 1)
)
def test_tools_whose_names_differ_by_unseen_characters_look_different(command, filled, capsys):
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "mcp:pay\\u200b" in shown
    assert "mcp:pay " in shown.replace("\n", " ").replace("mcp:pay\\u200b", "")


def test_json_has_the_same_values_after_it_is_read_and_is_the_same_to_a_terminal_and_a_pipe(filled, capsys):
    assert run(["tools", "--json"]) == 0
    piped = capsys.readouterr().out
    assert {HOSTILE, "mcp:pay", HIDDEN} <= {each["tool_name"] for each in json.loads(piped)["tool_reports"]}
    assert run(["sql", "SELECT DISTINCT tool_name FROM tool_metrics ORDER BY 1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows == [[each] for each in sorted([HOSTILE, "mcp:pay", HIDDEN], key=str.encode)]


def test_an_answer_of_the_api_can_be_read_in_a_terminal_and_is_the_same_json(filled):
    with urlopen(f"{filled}/v1/tools") as answer:
        text = answer.read().decode()
    assert not unseen(text)
    assert HOSTILE in {each["tool_name"] for each in json.loads(text)["tool_reports"]}
