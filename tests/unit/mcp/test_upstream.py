"""What the proxy makes of a server's answers. A lost connection counts once, by the first tool call that fails because of it."""

from __future__ import annotations

import asyncio

import mcp_types as types
import pytest
from mcp import MCPError

from switchgear import BreakerPolicy
from switchgear.classify import Classification, classify
from switchgear.integrations.tool_calls import ToolCalls
from switchgear.telemetry.hooks import FunctionHooks
from switchgear_mcp.connection import Ending
from switchgear_mcp.errors import (
    AnswerTooLargeError,
    ServerDownError,
    ServerSilentError,
    ServerStatusError,
)
from switchgear_mcp.listing import Inbound
from switchgear_mcp.servers import CommandServer
from switchgear_mcp.upstream import Upstream
from tests.support.local_client import local_client
from tests.support.virtual_time import in_virtual_time

SERVER = CommandServer("small", "a-server")
FIVE = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=3600)
LONGEST_FIRST_PAUSE_S = 0.6


class FakeConnection:
    """A connection that starts if the server is up, and ends when the test says so."""

    def __init__(self, world):
        self._world = world
        self.ending, self.headers = Ending("has ended"), {}
        self.alive, self.starting = world.up, False
        self.session = self if world.up else None
        self._end = asyncio.Event()

    async def started(self):
        return self.alive

    async def ended(self):
        return self.ending

    async def close(self):
        self.end()

    def end(self):
        self.alive, self.session = False, None
        self._end.set()

    async def send_request(self, request, _result, **_options):
        if self._world.limited:
            self.ending.status_code, self.ending.wait_s = 429, 30
            raise MCPError(types.INTERNAL_ERROR, "Server returned an error response")
        if self._world.silent:
            raise MCPError(types.REQUEST_TIMEOUT, "Timed out while waiting for response")
        if request.method in self._world.lists:
            entries, following = self._world.lists[request.method][(request.params or {}).get("cursor")]
            return type("Answer", (), {"root": {"tools": entries} | ({"nextCursor": following} if following else {})})
        if self._world.closes_answers:
            raise MCPError(types.CONNECTION_CLOSED, "SSE stream ended")
        if self._world.large:
            raise MCPError(types.INTERNAL_ERROR, "Failed to parse JSON response: x is larger than the proxy reads")
        if request.method == "tools/list" and self._world.pages:
            return type("Answer", (), {"root": self._world.pages.pop(0)})
        if request.method != "tools/call" or self._world.answers:
            return type("Answer", (), {"root": {"content": []}})
        await self._end.wait()
        raise MCPError(types.CONNECTION_CLOSED, "Connection closed")


class World:
    """A server behind a proxy, whose tools are called through circuits."""

    def __init__(self, policy=FIVE):
        self.now = 0.0
        self.up, self.answers, self.closes_answers, self.limited, self.silent = True, False, False, False, False
        self.lists = {}
        """By method, the pages by their cursors: the entries, and the cursor of the next page."""
        self.large, self.pages = False, []
        self.connections, self.outcomes = [], []
        hooks = [FunctionHooks(on_outcome=self.outcomes.append)]
        self.gear = local_client(lambda: self.now, local_policies=policy, hooks=hooks)
        self.calls = ToolCalls(self.gear, circuit_of=lambda name: f"mcp:small:{name}")
        self.upstream = Upstream(SERVER, None, 60, inbound=Inbound(100_000), clock=lambda: self.now, make=self.connect)

    def connect(self, *_given):
        self.connections.append(FakeConnection(self))
        return self.connections[-1]

    async def call(self, tool="search"):
        """Return the answer, the error, or None for a refusal."""
        call = self.calls.begin(tool)
        if not call:
            return None
        try:
            with call:
                return await self.upstream.request("tools/call", {"name": tool})
        except ServerDownError as error:
            return error

    async def crash(self, calls):
        """Let the server end while calls are under way. Return how they ended."""
        under_way = [asyncio.ensure_future(self.call(f"tool-{number}")) for number in range(calls)]
        await asyncio.sleep(1)
        self.connections[-1].end()
        return await asyncio.gather(*under_way)

    @property
    def classes(self):
        return [outcome.error_class for outcome in self.outcomes]


@pytest.fixture
def world():
    return World()


@in_virtual_time
async def test_seven_calls_in_flight_at_a_crash_are_one_failure_and_the_restarted_server_is_called(world):
    ended = await world.crash(7)
    assert [str(error).endswith("The call was under way.") for error in ended] == [True] * 7
    assert world.classes == ["transport"] + ["policy"] * 6
    world.now += LONGEST_FIRST_PAUSE_S
    world.answers = True
    assert [await world.call(f"tool-{number}") for number in range(7)] == [{"content": []}] * 7
    assert len(world.connections) == 2


@in_virtual_time
async def test_calls_in_the_restart_pause_count_as_nothing(world):
    await world.crash(1)
    found = [await world.call(f"tool-{number}") for number in range(20)]
    assert all("The first call after" in str(error) for error in found)
    assert world.classes == ["transport"] + ["policy"] * 20


@in_virtual_time
async def test_a_server_that_never_starts_opens_after_five_attempts(world):
    world.up = False
    for _ in range(4):
        assert isinstance(await world.call(), ServerDownError)
        assert isinstance(await world.call(), ServerDownError), "in the pause"
        world.now += 40  # longer than the longest pause
    assert isinstance(await world.call(), ServerDownError)
    assert await world.call() is None
    assert len(world.connections) == 5
    assert world.classes == ["transport", "policy"] * 4 + ["transport"]


@in_virtual_time
async def test_a_server_that_ends_at_every_call_opens_after_five_calls(world):
    for _ in range(5):
        (ended,) = await world.crash(1)
        assert isinstance(ended, ServerDownError)
        world.now += 40
    assert world.classes == ["transport"] * 5
    assert await world.call("tool-0") is None


@in_virtual_time
async def test_a_loss_that_a_list_or_a_resource_meets_first_counts_by_the_next_tool_call(world):
    world.up = False
    for method in ("tools/list", "resources/read"):
        with pytest.raises(ServerDownError):
            await world.upstream.request(method)
    await world.call("one")
    await world.call("other")
    assert world.classes == ["transport", "policy"]


@in_virtual_time
async def test_a_server_that_dies_between_calls_is_one_failure(world):
    world.answers = True
    await world.call()
    world.connections[-1].end()
    assert isinstance(await world.call(), ServerDownError)
    assert isinstance(await world.call(), ServerDownError)
    assert world.classes == [None, "transport", "policy"]


@in_virtual_time
async def test_an_answer_that_ends_alone_counts_for_its_call(world):
    world.closes_answers = True
    await world.call()
    await world.call()
    assert world.classes == ["transport"] * 2
    assert len(world.connections) == 1


@in_virtual_time
async def test_a_probe_in_the_restart_pause_decides_nothing_and_the_next_call_probes():
    world = World(BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60))
    await world.crash(1)
    assert await world.call("tool-0") is None
    world.now += 60
    world.up = False
    with pytest.raises(ServerDownError):
        await world.upstream.request("tools/list")
    await world.call("another")  # it counts for the attempt that the list made
    assert isinstance(await world.call("tool-0"), ServerDownError)
    assert world.classes == ["transport", "transport", "policy"]
    world.now += 2
    world.up = world.answers = True
    assert await world.call("tool-0") == {"content": []}


@in_virtual_time
async def test_a_limited_server_says_in_its_headers_how_long_to_wait(world):
    world.limited = True
    with pytest.raises(ServerStatusError, match="429") as raised:
        await world.call()
    assert classify(raised.value) == Classification("rate_limited", 30)


@in_virtual_time
async def test_a_server_that_does_not_answer_in_time_is_a_timeout_and_not_unreachable():
    world = World(
        BreakerPolicy(
            consecutive_failures=2, wait_duration_in_open_state_s=60, counted_error_classes=frozenset({"timeout"})
        )
    )
    world.silent = True
    for _ in range(2):
        with pytest.raises(ServerSilentError, match="did not answer within 60 s"):
            await world.call()
    assert world.classes == ["timeout"] * 2
    assert await world.call() is None, "a policy that counts timeouts alone opens"


@in_virtual_time
async def test_each_page_of_a_long_list_is_read_once(world):
    world.lists["tools/list"] = {
        None: ([{"name": "a"}, {"name": "b"}], "2"),
        "2": ([{"name": "c"}], "3"),
        "3": ([{"name": "d"}], None),
    }
    assert [each["name"] for each in await world.upstream.pages("tools/list", "tools")] == ["a", "b", "c", "d"]


@in_virtual_time
async def test_an_answer_that_is_too_large_is_an_error_of_the_caller_and_opens_nothing(world):
    world.large = True
    for _ in range(6):
        with pytest.raises(AnswerTooLargeError, match=r"small is larger than the proxy reads .* Ask for less"):
            await world.call()
    assert world.classes == ["invalid_input"] * 6
    assert len(world.connections) == 1


@in_virtual_time
async def test_the_pages_of_a_list_have_one_budget_together_and_entries_that_are_none_are_left_out(world):
    tools = [{"name": "x" * 1_000}, "text", None]
    world.pages = [{"tools": tools, "nextCursor": f"c{number}"} for number in range(300)]
    assert len(await world.upstream.pages("tools/list", "tools")) == 95
    world.pages = [{"tools": "text", "nextCursor": 0}]
    assert await world.upstream.pages("tools/list", "tools") == []
