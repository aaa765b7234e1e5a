"""A result that tells of a failure is reported as one, by the shortest guard as by the longest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from switchgear import Switchgear
from switchgear.classify import result as result_failure
from switchgear.classify.result import failure_in, text_in
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.testing import InMemoryFleet


class Unreadable(Mapping):
    """A mapping whose look-ups fail."""

    def __getitem__(self, key):
        raise RuntimeError(key)

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        return 1


class CallToolResult:
    """Has the shape of the MCP SDK's."""

    isError = True  # noqa: N815 - MCP's name

    def __init__(self, text):
        self.content = [{"type": "text", "text": text}]


def test_the_shortest_guard_reports_an_mcp_error_as_the_tools_own_and_returns_it():
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


def test_a_local_guard_returns_it_too():
    gear = Switchgear.local()
    result = CallToolResult("x")

    async def asearch():
        return result

    search, also = gear.guard("t")(lambda: result), gear.guard("t")(asearch)
    for _ in range(9):
        assert search() is result
        assert asyncio.run(also()) is result
    assert not gear.is_open("t")


@pytest.mark.parametrize("result", [None, 1, "x", {"content": "x"}, {"isError": True}, object(), CallToolResult])
def test_other_results_tell_of_no_failure(result):
    assert failure_in(result) is None


def test_a_result_that_can_not_be_read_tells_of_none_and_is_told_of_once(caplog, monkeypatch):
    monkeypatch.setattr(result_failure, "_complaints", BoundedLog(logging.getLogger("switchgear.guard")))
    gear = Switchgear.local()

    def tool():
        return Unreadable()

    for guarded in (gear.guard("t")(tool), gear.guard("t", timeout=5)(tool)):
        for _ in range(3):
            assert isinstance(guarded(), Unreadable)
    assert caplog.text.count("a result of type Unreadable could not be read: RuntimeError") == 1
    assert text_in(Unreadable()).startswith("(its text can't be read")


def test_a_failure_without_words_is_told_as_one():
    assert text_in({"isError": True, "content": []}) == "the result says that the tool failed"
