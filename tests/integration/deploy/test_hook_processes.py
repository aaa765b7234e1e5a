"""The hook as Claude Code runs it: a process per event, with the event on standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from switchgear_cli.hook.state import State
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import environment

TOOL = "mcp__weather__get_forecast"
REFUSED = "MCP error -32000: Connection closed"


@pytest.fixture
def path(tmp_path):
    """The file of the hook's state."""
    return tmp_path / "state.db"


@pytest.fixture
def hook(path):
    def start(event, *arguments, extra=None):
        content = event if isinstance(event, bytes) else json.dumps(event).encode()
        process = subprocess.Popen(
            [sys.executable, "-m", "switchgear_cli", "hook", "claude-code", "--state-file", str(path), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(extra=extra),
        )  # fmt: skip
        process.stdin.write(content)
        process.stdin.close()
        return process

    return start


def ended(process):
    out, error = process.stdout.read().decode(), process.stderr.read().decode()
    process.stdout.close()
    process.stderr.close()
    return process.wait(HAPPEN_S), out, error


def event(kind, call="toolu_1", **fields):
    known = {"session_id": "s-1", "hook_event_name": kind, "tool_name": TOOL, "tool_use_id": call, "tool_input": {}}
    return known | fields


def opened(path, hook):
    """Open the circuit by five calls, each of two processes."""
    for number in range(5):
        assert ended(hook(event("PreToolUse", str(number)))) == (0, "", "")
        assert ended(hook(event("PostToolUseFailure", str(number), error=REFUSED))) == (0, "", "")


def after_the_wait(path):
    """Let the waits of all circuits in the file be over, as a minute would."""
    from switchgear.breaker import Breaker  # noqa: PLC0415
    from switchgear_schemas.cause import Cause  # noqa: PLC0415
    from switchgear_schemas.policy import LOCAL_DEFAULT  # noqa: PLC0415

    with State(path) as state:
        for row in state.circuits():
            breaker = Breaker.restore(row.saved, LOCAL_DEFAULT)
            breaker.end_wait_early(time.time(), Cause("test"))
            state.keep_circuit(row._replace(saved=breaker.snapshot()), time.time())


def test_processes_share_the_circuit_and_refuse_a_call_with_json(path, hook):
    opened(path, hook)
    code, out, error = ended(hook(event("PreToolUse")))
    assert (code, error) == (0, "")
    assert json.loads(out)["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.deep
def test_of_two_processes_at_once_one_gets_the_probe(path, hook):
    opened(path, hook)
    for _ in range(3):
        after_the_wait(path)
        processes = [hook(event("PreToolUse", f"toolu_{number}")) for number in range(2)]
        answers = [ended(process) for process in processes]
        assert [code for code, _, _ in answers] == [0, 0]
        assert sorted(bool(out) for _, out, _ in answers) == [False, True], answers
        probe = next(number for number, (_, out, _) in enumerate(answers) if not out)
        assert ended(hook(event("PostToolUseFailure", f"toolu_{probe}", error=REFUSED))) == (0, "", "")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_standard_input_that_is_no_event_is_an_error_that_does_not_block(hook, content):
    code, out, error = ended(hook(content))
    assert (code, out) == (1, "")
    assert error.startswith("switchgear: Standard input is not an event of Claude Code")
    assert error.count("\n") == 1


def test_a_failure_of_our_own_lets_the_call_go_on(path, hook):
    path.mkdir(parents=True)
    code, out, error = ended(hook(event("PreToolUse")))
    assert (code, out) == (0, "")
    assert error.startswith("switchgear: The hook failed, and the call goes on:")
    assert error.count("\n") == 1


def test_the_event_of_a_tool_without_failures_imports_neither_the_sdk_nor_the_parser_of_command_lines(path):
    script = (
        "import sys; from switchgear_cli.main import run; code = run(sys.argv[1:]);"
        "heavy = {'switchgear', 'cyclopts', 'rich', 'pydantic', 'msgspec', 'structlog', 'asyncio', 'httpx'};"
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    for kind in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionEnd"):
        done = subprocess.run(
            [sys.executable, "-c", script, "hook", "claude-code", "--state-file", str(path)],
            input=json.dumps(event(kind, tool_response=[])), env=environment(), capture_output=True, text=True, timeout=READY_S, check=True,
        )  # fmt: skip
        assert done.stdout == "0 []\n"


def test_events_wait_in_the_file_and_no_call_waits_for_kafka_while_it_is_down(path, hook):
    nowhere = {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    began = time.monotonic()
    assert ended(hook(event("PostToolUse", tool_response=[], duration_ms=40), extra=nowhere)) == (0, "", "")
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + HAPPEN_S
    with State(path) as state:
        while state.is_due("sender", time.time()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not state.is_due("sender", time.time())
        assert len(state.posted(10)) == 1


def test_the_event_for_kafka_says_how_the_call_ended(path, hook):
    # The lock of a sender that runs: so none is started, and the events stay.
    from switchgear_schemas.file_lock import FileLock  # noqa: PLC0415

    kafka = {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with FileLock(path.with_suffix(".sender")):
        ended(hook(event("PostToolUse", tool_response=[], duration_ms=40), extra=kafka))
        ended(hook(event("PostToolUseFailure", error=REFUSED, duration_ms=7), extra=kafka))
        ended(hook(event("PostToolUseFailure", error="x", is_interrupt=True), extra=kafka))
        with State(path) as state:
            events = [json.loads(each) for _, each in state.posted(10)]
    assert [each["status"] for each in events] == ["success", "error", "cancelled"]
    assert {each["tool_name"] for each in events} == {"mcp:weather:get_forecast"}
    assert events[0]["execution_time_ms"] == 40
    assert (events[1]["error_class"], events[1]["error_message"]) == ("transport", REFUSED)
    assert len({each["metric_id"] for each in events}) == 3


def test_no_event_is_kept_without_kafka(path, hook):
    ended(hook(event("PostToolUse", tool_response=[])))
    with State(path) as state:
        assert state.posted(1) == []
    assert not os.path.exists(path.with_suffix(".sender"))  # noqa: PTH110
