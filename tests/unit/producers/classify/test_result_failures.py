"""A guard reports a result that is a failure, with and without options."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from switchgear import Switchgear
from switchgear.classify.result import classify_result, result_text
from switchgear.classify.tool_failure import META_KEY, tool_failure
from switchgear.testing import InMemoryFleet
from tests.support.table import table


class Unreadable(Mapping):
    """A mapping whose lookups fail."""

    def __getitem__(self, key):
        raise RuntimeError(key)

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        return 1


class CallToolResult:
    """A result as in the MCP SDK."""

    isError = True  # noqa: N815 - MCP's name

    def __init__(self, text):
        self.content = [{"type": "text", "text": text}]


def test_guard_reports_and_returns_an_mcp_error():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    result = CallToolResult("no such city")

    async def asearch():
        return result

    search, also = gear.guard("t")(lambda: result), gear.guard("t")(asearch)
    for _ in range(3):
        assert search() is result
        assert asyncio.run(also()) is result
    gear.flush()
    assert [(event["status"], event["error_class"], event["error_message"]) for event in fleet.events("t")] == [
        ("error", "tool", "no such city")
    ] * 6
    assert not gear.is_open("t"), "the server answered"


def test_local_guard_returns_an_mcp_error():
    gear = Switchgear.local()
    result = CallToolResult("x")

    async def asearch():
        return result

    search, also = gear.guard("t")(lambda: result), gear.guard("t")(asearch)
    for _ in range(9):
        assert search() is result
        assert asyncio.run(also()) is result
    assert not gear.is_open("t")


@table("result", [None, 1, "x", {"content": "x"}, {"isError": True}, object(), CallToolResult])
def test_guard_reports_other_results_as_successes(result):
    assert classify_result(result) is None


def test_unreadable_result_is_a_success_and_is_logged_once(caplog):
    gear = Switchgear.local()

    def tool():
        return Unreadable()

    for guarded in (gear.guard("t")(tool), gear.guard("t", timeout=5)(tool)):
        for _ in range(3):
            assert isinstance(guarded(), Unreadable)
    assert caplog.text.count("a result of type Unreadable could not be read: RuntimeError") == 1
    assert result_text(Unreadable()).startswith("(its text can't be read")


def test_request_for_input_is_no_error_and_does_not_count():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    asking = {"resultType": "input_required", "requestState": "s"}
    assert gear.call("t", lambda: asking) is asking
    gear.flush()
    (event,) = fleet.events("t")
    assert (event["status"], event["error_class"]) == ("success", "policy")
    assert "error_message" not in event


def test_refusal_behind_an_mcp_server_is_an_error_that_does_not_count():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    meta = {META_KEY: tool_failure("local", "x", retry_after_s=5.0, correlation_id="c", now=0.0)}
    refused = {"isError": True, "content": "The tool x is unavailable", "_meta": meta}
    assert gear.call("t", lambda: refused) is refused
    gear.flush()
    (event,) = fleet.events("t")
    assert (event["status"], event["error_class"]) == ("error", "policy")
    assert event["error_message"] == "The tool x is unavailable"


def test_mcp_error_without_text_has_a_message():
    fleet = InMemoryFleet()
    fleet.gear("planner").call("t", lambda: {"isError": True, "content": []})
    assert fleet.events("t")[0]["error_message"] == "the result says that the tool failed"
