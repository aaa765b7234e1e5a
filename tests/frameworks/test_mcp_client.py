"""The adapter of the MCP SDK's clients passes the suite. The agent is a scripted client of a server in the same process."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from mcp import Client, ClientSession, ClientSessionGroup, Implementation, MCPError, StdioServerParameters, stdio_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from switchgear import BreakerPolicy, CircuitOpenError, GuardOptions, classify
from switchgear.arguments import OptionError
from switchgear.classify.tool_failure import META_KEY
from switchgear.integrations.mcp_client import guard_session
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import BACKUP, FORECAST, AdapterDriver, AdapterSuite, SuiteRun, SuiteTool
from tests.frameworks.examples import expect_example
from tests.frameworks.scripted_client import play, text_of

CIRCUIT = f"mcp:weather:{FORECAST}"
FIRST = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)


def make_server(tools) -> MCPServer:
    server: Any = MCPServer("weather")
    for each in tools:
        server.tool()(each.function())
    return server


def as_clients_see_it(does):
    """Turn exceptions into what a client gets: those of a dead or slow connection, and the refusal of a guarded server."""

    @functools.wraps(does)
    def seen(city):
        try:
            return does(city)
        except ConnectionError as error:
            raise MCPError(-32000, "Connection closed") from error
        except TimeoutError as error:
            raise MCPError(-32001, "Request timed out") from error
        except CircuitOpenError as refused:
            raise ToolError(refused.text) from refused

    return seen


class McpClientDriver(AdapterDriver):
    framework = "mcp"
    not_possible: ClassVar[Mapping[str, str]] = {
        "outage_is_told_once_in_the_conversation_and_so_is_its_end": "a client session has no prompt",
        "retries_of_the_framework_count_once": "the SDK retries no calls",
        "guarded_function_is_counted_once_and_its_circuit_filters": "a client doesn't see the function of a server's tool",
    }

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        for each in tools:
            each.does = as_clients_see_it(each.does)
        run = SuiteRun()
        async with Client(make_server(tools), mode="legacy" if stream else "auto") as client:
            if gear is not None:
                guard_session(client, gear, server="weather", circuit_of=str, terminal_after=terminal_after)

            async def list_tools() -> set[str]:
                return {tool.name for tool in (await client.list_tools()).tools}

            async def call_tool(name: str, arguments: dict[str, Any]) -> str:
                return text_of(await client.call_tool(name, arguments))

            await play(run, turns, list_tools=list_tools, call_tool=call_tool)
        return run

    def interrupt(self):
        return question()

    def error_value(self, text):
        raise ToolError(text)


def question() -> InputRequiredResult:
    asked = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
    params = ElicitRequestFormParams(message="Is that right?", requested_schema=asked)
    return InputRequiredResult(input_requests={"sure": ElicitRequest(params=params)})


class TestMcpClient(AdapterSuite):
    driver = McpClientDriver()


async def test_default_circuits_are_named_after_the_server_and_the_tool():
    fleet = InMemoryFleet()
    async with Client(make_server([SuiteTool()])) as client:
        assert guard_session(client, fleet.gear(), server="weather") is client
        await client.call_tool(FORECAST, {"city": "Oslo"})
    assert [event["status"] for event in fleet.events(CIRCUIT)] == ["success"]


async def test_tool_that_rejects_one_connection_is_called_by_another_one():
    fleet = InMemoryFleet()
    gear = fleet.gear()
    meta = {META_KEY: {"class": "governance", "code": "auth_required"}}
    rejected = CallToolResult(content=[], is_error=True, _meta=meta)
    server = make_server([SuiteTool(does=lambda _city: rejected)])
    async with Client(server) as one, Client(server) as other:
        for client in (one, other):
            guard_session(client, gear, server="weather")
        for _ in range(3):
            assert text_of(await one.call_tool(FORECAST, {"city": "Oslo"})) == ""
        assert text_of(await one.call_tool(FORECAST, {"city": "Oslo"})).startswith("Your credentials")
        assert text_of(await other.call_tool(FORECAST, {"city": "Oslo"})) == ""


async def test_unknown_tools_are_refused_to_a_session_after_three():
    fleet = InMemoryFleet()
    gear = fleet.gear()
    async with Client(make_server([SuiteTool()])) as client:
        guard_session(client, gear, server="weather")
        await client.list_tools()
        with gear.session("s-1"):
            found = [text_of(await client.call_tool(name, {})) for name in ("web", "google", "bing", "lycos")]
    assert "Unknown tool" in found[2]
    assert found[3].startswith("Your last 3 calls of tools that don't exist were rejected")
    assert fleet.events() == []


async def test_tool_that_crashes_in_a_server_which_hides_exceptions_is_the_tools_error():
    fleet = InMemoryFleet()

    def crash(_city: str) -> str:
        raise ConnectionError("refused")

    async with Client(make_server([SuiteTool(does=crash)])) as client:
        guard_session(client, fleet.gear(), server="weather")
        found = await client.call_tool(FORECAST, {"city": "Oslo"})
    assert text_of(found) == f"Error executing tool {FORECAST}"
    assert [event["error_class"] for event in fleet.events(CIRCUIT)] == ["tool"]


async def test_users_rule_for_results_decides_about_a_crash():
    fleet = InMemoryFleet()
    gear = fleet.gear(defaults=GuardOptions(classify_result=lambda result: "unknown" if result.is_error else None))
    async with Client(make_server([SuiteTool(does={}.__getitem__)])) as client:
        guard_session(client, gear, server="weather")
        await client.call_tool(FORECAST, {"city": "Oslo"})
    assert [event["error_class"] for event in fleet.events(CIRCUIT)] == ["unknown"]


async def test_refusal_has_structured_data_and_the_error_that_ends_a_run_has_it_too():
    fleet = InMemoryFleet()
    fleet.open_circuit(CIRCUIT)
    async with Client(make_server([SuiteTool()])) as client:
        guard_session(client, fleet.gear(), server="weather", terminal_after=2)
        refused = await client.call_tool(FORECAST, {"city": "Oslo"})
        with pytest.raises(MCPError, match="The run ends") as raised:
            await client.call_tool(FORECAST, {"city": "Oslo"})
    assert (refused.is_error, refused.meta[META_KEY]["code"]) == (True, "circuit_open")
    assert raised.value.error.data[META_KEY]["code"] == "circuit_open"
    assert classify(raised.value).error_class not in {"transport", "timeout", "server", "unknown"}


async def test_each_round_of_a_call_with_input_is_judged_and_the_question_is_ignored():
    fleet = InMemoryFleet(FIRST)
    server: Any = MCPServer("weather")

    @server.tool()
    async def get_forecast(city: str, ctx: Context) -> str | InputRequiredResult:
        return question() if not ctx.input_responses else f"sunny in {city}"

    async def answer(_context: Any, _params: Any) -> ElicitResult:
        fleet.clock.advance(60)  # the user thinks about it
        return ElicitResult(action="accept", content={"sure": True})

    async with Client(server, elicitation_callback=answer) as client:
        guard_session(client, fleet.gear(local_policies=FIRST), server="weather")
        assert text_of(await client.call_tool(FORECAST, {"city": "Oslo"})) == "sunny in Oslo"
    last = fleet.events(CIRCUIT)[-1]
    assert (last["status"], last["execution_time_ms"]) == ("success", 0)
    assert all(event.get("error_class") in {None, "policy"} for event in fleet.events(CIRCUIT))


class CutSession(ClientSession):
    """A session whose calls wait for their answer until the connection ends."""

    def __init__(self, message="Connection closed"):
        self.begun, self.ended, self._message = 0, asyncio.Event(), message

    async def call_tool(self, *_args: Any, **_options: Any) -> Any:
        self.begun += 1
        await self.ended.wait()
        raise MCPError(-32000, self._message)


async def cut(session: CutSession, calls: int) -> None:
    """Let the connection end while calls are under way."""
    under_way = [asyncio.ensure_future(session.call_tool(FORECAST, {})) for _ in range(calls)]
    while session.begun < calls:  # noqa: ASYNC110 - nothing else says so
        await asyncio.sleep(0)
    session.ended.set()
    errors = await asyncio.gather(*under_way, return_exceptions=True)
    assert [type(error) for error in errors] == [MCPError] * calls


async def test_calls_under_way_when_the_connection_ends_are_one_failure():
    fleet = InMemoryFleet()
    session = guard_session(CutSession(), fleet.gear(), server="weather")
    await cut(session, 7)
    assert [event["error_class"] for event in fleet.events(CIRCUIT)] == ["transport"] + ["policy"] * 6


async def test_calls_that_begin_after_a_lost_session_count_again():
    fleet = InMemoryFleet()
    session = guard_session(CutSession(), fleet.gear(), server="weather")
    await cut(session, 3)
    for _ in range(2):
        with pytest.raises(MCPError):
            await session.call_tool(FORECAST, {})
    assert [event["error_class"] for event in fleet.events(CIRCUIT)] == [
        "transport", "policy", "policy", "transport", "transport",
    ]  # fmt: skip


async def test_errors_of_a_server_with_the_code_of_a_lost_connection_count_each():
    fleet = InMemoryFleet()
    session = guard_session(CutSession("the database is down"), fleet.gear(), server="weather")
    await cut(session, 3)
    assert [event["error_class"] for event in fleet.events(CIRCUIT)] == ["transport"] * 3


async def test_result_that_does_not_fit_the_tools_output_schema_counts_as_its_failure():
    fleet = InMemoryFleet()
    server: Any = MCPServer("weather")

    @server.tool()
    def get_forecast(city: str) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"degrees": city})

    async with Client(server) as client:
        guard_session(client, fleet.gear(), server="weather")
        client.session._tool_output_schemas[FORECAST] = {"properties": {"degrees": {"type": "number"}}}
        with pytest.raises(RuntimeError, match="Invalid structured content"):
            await client.call_tool(FORECAST, {"city": "Oslo"})
    assert [event["error_class"] for event in fleet.events(CIRCUIT)] == ["unknown"]


SERVER = """
import asyncio
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")

@server.tool()
async def get_forecast(city: str) -> str:
    if city == "Atlantis":
        os._exit(1)
    if city == "Ys":
        await asyncio.sleep(60)
    return f"sunny in {city}"

server.run()
"""


async def test_process_that_dies_is_a_lost_connection_and_a_slow_one_is_a_timeout(tmp_path):
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=9))
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    gear = fleet.gear(local_policies=BreakerPolicy(consecutive_failures=3))
    async with (
        stdio_client(StdioServerParameters(command=sys.executable, args=[str(script)])) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        guard_session(session, gear, server="weather")
        assert [tool.name for tool in (await session.list_tools()).tools] == [FORECAST]
        assert text_of(await session.call_tool(FORECAST, {"city": "Oslo"})) == "sunny in Oslo"
        with pytest.raises(MCPError):
            await session.call_tool(FORECAST, {"city": "Ys"}, read_timeout_seconds=0.3)
        for city in ("Atlantis", "Oslo"):
            with pytest.raises(MCPError):
                await session.call_tool(FORECAST, {"city": city})
        assert "is unavailable (circuit open)" in text_of(await session.call_tool(FORECAST, {"city": "Oslo"}))
        classes = [event.get("error_class") for event in fleet.events(CIRCUIT) if event["status"] != "rejected"]
    assert classes == [None, "timeout", "transport", "transport"]


async def test_fallback_within_the_server_answers_a_refused_call():
    fleet = InMemoryFleet()
    fleet.open_circuit(CIRCUIT)
    gear = fleet.gear(fallbacks={CIRCUIT: f"mcp:weather:{BACKUP}"}, tool_list="new_sessions")
    async with Client(make_server([SuiteTool(), SuiteTool(BACKUP, "cloudy in {}".format)])) as client:
        guard_session(client, gear, server="weather")
        assert [tool.name for tool in (await client.list_tools()).tools] == [BACKUP]
        assert text_of(await client.call_tool(FORECAST, {"city": "Oslo"})) == "cloudy in Oslo"


async def test_fallback_of_another_server_is_named_in_the_refusal():
    fleet = InMemoryFleet()
    fleet.open_circuit(CIRCUIT)
    async with Client(make_server([SuiteTool()])) as client:
        guard_session(client, fleet.gear(fallbacks={CIRCUIT: "mcp:other:search"}), server="weather")
        await client.list_tools()
        assert "Use mcp:other:search instead." in text_of(await client.call_tool(FORECAST, {"city": "Oslo"}))


async def test_list_is_filtered_although_the_client_keeps_it():
    fleet = InMemoryFleet()
    async with Client(make_server([SuiteTool(), SuiteTool(BACKUP)])) as client:
        guard_session(client, fleet.gear(tool_list="hide", hide_after_s=0), server="weather")
        assert len((await client.list_tools()).tools) == 2
        fleet.open_circuit(CIRCUIT)
        assert [tool.name for tool in (await client.list_tools()).tools] == [BACKUP]
        fleet.close_circuit(CIRCUIT)
        assert len((await client.list_tools()).tools) == 2


async def test_guarded_session_is_guarded_within_a_group_of_sessions_too():
    fleet = InMemoryFleet()
    async with Client(make_server([SuiteTool()])) as client, ClientSessionGroup() as group:
        guard_session(client.session, fleet.gear(), server="weather")
        await group.connect_with_session(Implementation(name="weather", version="1"), client.session)
        fleet.open_circuit(CIRCUIT)
        assert "circuit forced open" in text_of(await group.call_tool(FORECAST, {"city": "Oslo"}))


async def test_session_that_cannot_be_guarded_is_refused_with_a_hint():
    gear = InMemoryFleet().gear()
    client = Client(make_server([SuiteTool()]))
    with pytest.raises(OptionError, match='Write "async with client:" first'):
        guard_session(client, gear, server="weather")
    with pytest.raises(OptionError, match="a Client or ClientSession of the MCP SDK, not 'weather'"):
        guard_session("weather", gear, server="weather")
    async with client:
        guard_session(client, gear, server="weather")
        with pytest.raises(OptionError, match="Guard it once"):
            guard_session(client, gear, server="weather")


EXPECTED = [
    "offered: get_forecast, get_climate",
    "get_forecast('Oslo') raised: ",
    "get_forecast('Rome') raised: ",
    "offered: get_forecast, get_climate",
    "get_forecast('Lima') -> The tool get_forecast is unavailable (circuit open).",
    "get_forecast('Lima') -> usually mild in Lima",
    "notice: These tools are unavailable: get_forecast",
]


def test_example_of_an_mcp_client_prints_the_expected_lines():
    expect_example("mcp_client_agent.py", EXPECTED)
