"""A lost connection counts once, by the first tool call that fails because of it."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy
from switchgear_mcp.errors import (
    AnswerTooLargeError,
    ServerDownError,
    ServerSilentError,
    ServerStatusError,
    SessionGoneError,
)
from tests.support.mcp_worlds import World
from tests.support.virtual_time import in_virtual_time

LONGEST_FIRST_PAUSE_S = 0.6
RESULT = {"result": {"content": []}}


@pytest.fixture
def world():
    return World()


def text_of(answer):
    return answer["result"]["content"][0]["text"]


async def crash(world, calls):
    """Let the server end while calls are under way. Return their answers."""
    await world.hello()
    for number in range(calls):
        params = {"name": f"tool-{number}"}
        await world.tell({"id": number, "method": "tools/call", "params": params})
    world.server.end()
    return [await world.answer(number) for number in range(calls)]


def listing(world, *names):
    world.answers["tools/list"] = {"result": {"tools": [{"name": name} for name in names]}}


@in_virtual_time
async def test_seven_calls_in_flight_at_a_crash_are_one_failure_and_the_restarted_server_is_called(world):
    listing(world, *(f"tool-{number}" for number in range(7)))
    ended = await crash(world, 7)
    assert [text_of(answer).endswith("The call was under way.") for answer in ended] == [True] * 7
    assert world.classes == ["transport"] + ["policy"] * 6
    world.now += LONGEST_FIRST_PAUSE_S
    world.answers["tools/call"] = RESULT
    for number in range(7):
        assert (await world.call(f"again-{number}", f"tool-{number}"))["result"] == {"content": []}
    assert len(world.connections) == 2


@in_virtual_time
async def test_calls_in_the_restart_pause_count_as_nothing(world):
    listing(world, "tool-0")
    await crash(world, 1)
    found = [await world.call(f"c{number}", "tool-0") for number in range(20)]
    assert all("The first call after" in text_of(answer) for answer in found)
    assert world.classes == ["transport"] + ["policy"] * 20


@in_virtual_time
async def test_a_server_that_never_starts_opens_after_five_attempts(world):
    world.up = False
    for _ in range(4):
        assert "can't be reached" in text_of(await world.call("a"))
        assert "The first call after" in text_of(await world.call("b")), "in the pause"
        world.now += 40  # longer than the longest pause
    await world.call("a")
    assert "circuit open" in text_of(await world.call("b"))
    assert world.classes == ["transport", "policy"] * 4 + ["transport"]


@in_virtual_time
async def test_a_loss_that_a_list_or_a_resource_meets_first_counts_by_the_next_tool_call(world):
    world.up = False
    for method in ("tools/list", "resources/read"):
        assert "error" in await world.ask(method, method)
    await world.call(1, "one")
    await world.call(2, "other")
    assert world.classes == ["transport", "policy"]


@in_virtual_time
async def test_a_server_that_dies_between_calls_is_one_failure(world):
    world.answers["tools/call"] = RESULT
    await world.hello()
    await world.call(1)
    world.server.end()
    for number in (2, 3):
        assert (await world.call(number))["result"]["isError"]
    assert world.classes == [None, "transport", "policy"]


@in_virtual_time
async def test_an_answer_that_ends_alone_counts_for_its_call(world):
    await world.hello()
    for number in range(2):
        await world.tell({"id": number, "method": "tools/call", "params": {"name": "echo"}})
        await world.server.fail(number, ServerDownError("The server small ended the answer."))
        assert text_of(await world.answer(number)) == "The server small ended the answer."
    assert world.classes == ["transport"] * 2
    assert len(world.connections) == 1


@in_virtual_time
async def test_a_probe_in_the_restart_pause_decides_nothing_and_the_next_call_probes():
    world = World(BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60))
    listing(world, "tool-0", "another")
    await crash(world, 1)
    assert "circuit open" in text_of(await world.call("x", "tool-0"))
    world.now += 60
    world.up = False
    await world.ask("list", "resources/list")
    await world.call("y", "another")  # it counts for the attempt that the list made
    assert "The first call after" in text_of(await world.call("z", "tool-0"))
    assert world.classes == ["transport", "transport", "policy"]
    world.now += 2
    world.up = True
    world.answers["tools/call"] = RESULT
    assert (await world.call("w", "tool-0"))["result"] == {"content": []}


@in_virtual_time
async def test_a_status_of_http_and_an_answer_that_is_too_large_are_failed_results_of_their_class(world):
    await world.hello()
    for number, error in enumerate(
        (ServerStatusError("The server small answered with HTTP 429.", 429, 30), AnswerTooLargeError("Ask for less."))
    ):
        await world.tell({"id": number, "method": "tools/call", "params": {"name": "echo"}})
        await world.server.fail(number, error)
        assert text_of(await world.answer(number)) == str(error)
    assert world.classes == ["rate_limited", "invalid_input"]


@in_virtual_time
async def test_a_server_that_is_silent_for_too_long_is_a_timeout_and_no_lost_connection(world):
    await world.hello()
    await world.tell({"id": 1, "method": "tools/call", "params": {"name": "echo"}})
    await world.server.fail(1, ServerSilentError("The server small did not answer within 3 s."))
    await world.answer(1)
    assert world.classes == ["timeout"]


@in_virtual_time
async def test_a_forgotten_session_is_made_again_and_the_request_is_sent_once_more(world):
    await world.hello()
    await world.tell({"id": 1, "method": "tools/call", "params": {"name": "echo"}})
    world.answers["tools/call"] = RESULT
    await world.server.fail(1, SessionGoneError())
    assert (await world.answer(1))["result"] == {"content": []}
    assert len(world.connections) == 2
    assert world.classes == [None]


@in_virtual_time
async def test_each_page_of_a_long_list_is_read_once_when_the_proxy_looks_for_a_tool(world):
    pages = {None: (["a", "b"], "2"), "2": (["c"], "3"), "3": (["d"], None)}

    def page(asked):
        names, following = pages[(asked.get("params") or {}).get("cursor")]
        tools = {"tools": [{"name": name} for name in names]}
        return {"result": tools | ({"nextCursor": following} if following else {})}

    world.answers |= {"tools/list": page, "tools/call": RESULT}
    await world.hello()
    for number, name in enumerate(("d", "a")):
        assert (await world.call(number, name))["result"] == {"content": []}
    assert len(world.server.asked("tools/list")) == 3
