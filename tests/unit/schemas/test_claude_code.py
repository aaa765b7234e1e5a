"""The events of Claude Code's hooks."""

from __future__ import annotations

from switchgear_schemas.claude_code import call_of, duration_ms, says_failed
from tests.support.table import table

EVENT = {"tool_name": "mcp__weather__get", "session_id": "s", "tool_use_id": "t", "tool_input": {"city": "Oslo"}}


def test_a_call_has_the_circuits_of_its_tool_and_of_its_server():
    call = call_of(EVENT)
    assert (call.tool, call.family, call.session, call.call) == ("mcp:weather:get", "mcp:weather", "s", "t")
    assert call.circuit_ids == ("mcp:weather:get", "mcp:weather|family")
    assert call_of(EVENT, family_pattern="").circuit_ids == ("mcp:weather:get",)


@table("name", ["Bash", "", None, 7, "mcp__a__" + "x" * 257])
def test_a_tool_that_is_not_guarded_has_no_call(name):
    assert call_of(EVENT | {"tool_name": name}) is None


@table(
    ("event", "failed"),
    [
        ({"hook_event_name": "PostToolUse"}, False),
        ({"hook_event_name": "PostToolUse", "tool_response": {"isError": True}}, True),
        ({"hook_event_name": "PostToolUse", "tool_response": {"is_error": True}}, True),
        ({"hook_event_name": "PostToolUse", "tool_response": "isError"}, False),
        ({"hook_event_name": "PostToolUseFailure"}, True),
    ],
)
def test_an_event_says_whether_the_call_failed(event, failed):
    assert says_failed(event) is failed


@table(
    ("value", "found"),
    [(40, 40.0), (0.5, 0.5), (-1, None), (True, None), ("40", None), (None, None), (1e300, None), (10**400, None)],
    ids=lambda value: str(value)[:10],
)
def test_a_duration_is_a_number_of_a_possible_size(value, found):
    assert duration_ms({"duration_ms": value}) == found
