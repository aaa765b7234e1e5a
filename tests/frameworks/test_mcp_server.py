"""The adapter of the MCP SDK's servers passes the suite. The agent is a scripted client in the same process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from switchgear import BreakerPolicy
from switchgear.arguments import OptionError
from switchgear.classify.tool_failure import META_KEY
from switchgear.integrations.mcp_client import guard_session
from switchgear.integrations.mcp_server import guard_server
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import BACKUP, FORECAST, NEWS, AdapterDriver, AdapterSuite, SuiteRun, SuiteTool
from tests.frameworks.examples import expect_example
from tests.frameworks.scripted_client import play, text_of

FIRST = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)


def make_server(tools) -> MCPServer:
    server: Any = MCPServer("weather")
    for each in tools:
        server.tool()(each.function())
    return server


def make_lowlevel_server(tools, *, page_size: int = 100) -> Server:
    functions = {each.name: each.function() for each in tools}
    asks_for_city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    async def on_list_tools(_ctx: Any, params: Any) -> ListToolsResult:
        start = int(params.cursor or 0) if params is not None else 0
        end = start + page_size
        names = list(functions)
        return ListToolsResult(
            tools=[Tool(name=name, input_schema=asks_for_city) for name in names[start:end]],
            next_cursor=str(end) if end < len(names) else None,
        )

    async def on_call_tool(_ctx: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if params.name not in functions:
            raise MCPError(-32602, f"Unknown tool: {params.name}")
        if set(params.arguments or {}) != {"city"}:
            raise MCPError(-32602, "city is missing")
        found = functions[params.name](**params.arguments)
        result = await found if hasattr(found, "__await__") else found
        if isinstance(result, CallToolResult | InputRequiredResult):
            return result
        return CallToolResult(content=[TextContent(type="text", text=result)])

    return Server("weather", on_list_tools=on_list_tools, on_call_tool=on_call_tool)


class McpServerDriver(AdapterDriver):
    framework = "mcp"
    not_possible: ClassVar[Mapping[str, str]] = {
        "outage_is_told_once_in_the_conversation_and_so_is_its_end": "a server does not see the client's prompt",
        "retries_of_the_framework_count_once": "the SDK retries no calls",
    }
    make_server: Any = staticmethod(make_server)

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        run = SuiteRun()
        server = self.make_server(tools)
        if gear is not None:
            guard_server(server, gear, terminal_after=terminal_after)
        async with Client(server, mode="legacy" if stream else "auto") as client:

            async def list_tools() -> set[str]:
                return {tool.name for tool in (await client.list_tools()).tools}

            async def call_tool(name: str, arguments: dict[str, Any]) -> str:
                return text_of(await client.call_tool(name, arguments))

            await play(run, turns, list_tools=list_tools, call_tool=call_tool)
        return run

    def interrupt(self):
        asked = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
        params = ElicitRequestFormParams(message="Is that right?", requested_schema=asked)
        return InputRequiredResult(input_requests={"sure": ElicitRequest(params=params)})

    def error_value(self, text):
        raise ToolError(text)


class LowlevelServerDriver(McpServerDriver):
    not_possible: ClassVar[Mapping[str, str]] = {
        **McpServerDriver.not_possible,
        "guarded_function_is_counted_once_and_its_circuit_filters": "one handler makes the calls of all tools",
    }
    make_server = staticmethod(make_lowlevel_server)

    def error_value(self, text):
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


class TestMcpServer(AdapterSuite):
    driver = McpServerDriver()


class TestLowlevelServer(AdapterSuite):
    driver = LowlevelServerDriver()


@pytest.mark.parametrize("make", [make_server, make_lowlevel_server])
async def test_refusal_has_structured_data_and_the_error_that_ends_a_run_has_it_too(make):
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    server = guard_server(make([SuiteTool()]), fleet.gear(), terminal_after=2)
    async with Client(server) as client:
        refused = await client.call_tool(FORECAST, {"city": "Oslo"})
        with pytest.raises(MCPError, match="The run ends") as raised:
            await client.call_tool(FORECAST, {"city": "Oslo"})
    assert (refused.is_error, refused.meta[META_KEY]["code"]) == (True, "circuit_open")
    assert raised.value.error.data[META_KEY]["code"] == "circuit_open"


@pytest.mark.parametrize("make", [make_server, make_lowlevel_server])
async def test_fallback_runs_before_any_client_has_listed_the_tools(make):
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    tools = [SuiteTool(), SuiteTool(NEWS), SuiteTool(BACKUP, "cloudy in {}".format)]
    server = guard_server(make(tools), fleet.gear(fallbacks={FORECAST: BACKUP}))
    async with Client(server) as client:
        assert text_of(await client.call_tool(FORECAST, {"city": "Oslo"})) == "cloudy in Oslo"


async def test_exception_that_the_server_hides_has_the_class_and_type_of_the_original():
    fleet = InMemoryFleet()
    server: Any = guard_server(make_server([SuiteTool(does={}.__getitem__)]), fleet.gear())

    @server.tool()
    async def nested(city: str, ctx: Context) -> str:
        found = await ctx.mcp_server._tool_manager.call_tool(FORECAST, {"city": city}, ctx)
        return str(found)

    async with Client(server) as client:
        for name in (FORECAST, "nested"):
            await client.call_tool(name, {"city": "Oslo"})
    (event,) = fleet.events(FORECAST)
    assert (event["error_type"], event["error_class"]) == ("KeyError", "unknown")
    (event,) = fleet.events("nested")
    assert (event["error_type"], event["error_class"]) == ("KeyError", "unknown")


async def test_refusal_does_not_show_the_exception_that_the_server_hides():
    fleet = InMemoryFleet(FIRST)
    gear = fleet.gear(local_policies=FIRST)
    async with Client(guard_server(make_server([SuiteTool(does={"Oslo": ""}.pop)]), gear)) as client:
        for city in ("secret-city", "Oslo"):
            refused = await client.call_tool(FORECAST, {"city": city})
    assert text_of(refused).startswith(f"The tool {FORECAST} is unavailable (circuit open). The rule ")
    assert "secret-city" not in refused.model_dump_json()


async def test_handler_that_raises_is_counted_and_the_protocol_error_stays():
    fleet = InMemoryFleet()

    def broken(_city: str) -> str:
        raise ConnectionError("refused")

    async with Client(guard_server(make_lowlevel_server([SuiteTool(does=broken)]), fleet.gear())) as client:
        with pytest.raises(MCPError):
            await client.call_tool(FORECAST, {"city": "Oslo"})
    assert [event["error_class"] for event in fleet.events(FORECAST)] == ["transport"]


async def test_refusals_of_a_guarded_server_do_not_open_the_circuits_of_a_guarded_client():
    inner, outer = InMemoryFleet(), InMemoryFleet(FIRST)
    inner.open_circuit(FORECAST)
    async with Client(guard_server(make_server([SuiteTool()]), inner.gear())) as client:
        guard_session(client, outer.gear(local_policies=FIRST), server="weather")
        for _ in range(3):
            await client.call_tool(FORECAST, {"city": "Oslo"})
    assert {event["error_class"] for event in outer.events()} == {"policy"}
    assert outer.state(f"mcp:weather:{FORECAST}") == "closed"


async def test_tools_on_later_pages_of_a_list_are_guarded_and_filtered():
    fleet = InMemoryFleet()
    tools, gear = [SuiteTool(NEWS), SuiteTool(BACKUP), SuiteTool()], fleet.gear(tool_list="hide", hide_after_s=0)
    async with Client(guard_server(make_lowlevel_server(tools, page_size=1), gear)) as client:
        await client.call_tool(FORECAST, {"city": "Oslo"})
        fleet.open_circuit(FORECAST)
        last = await client.list_tools(cursor="2")
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("no_such_tool", {"city": "Oslo"})
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]
    assert last.tools == []
    assert fleet.events("no_such_tool") == []


async def test_tool_that_is_added_later_is_guarded_and_one_that_is_removed_has_no_circuit():
    fleet = InMemoryFleet()
    server: Any = guard_server(make_server([SuiteTool()]), fleet.gear())
    async with Client(server) as client:
        await client.list_tools()
        server.tool()(SuiteTool(BACKUP).function())
        await client.call_tool(BACKUP, {"city": "Oslo"})
        server.remove_tool(FORECAST)
        assert "Unknown tool" in text_of(await client.call_tool(FORECAST, {"city": "Oslo"}))
    assert [event["tool_name"] for event in fleet.events()] == [BACKUP]


@pytest.mark.parametrize("make", [make_server, make_lowlevel_server])
async def test_bad_calls_and_unknown_tools_of_a_client_are_refused_after_three(make):
    fleet = InMemoryFleet()
    rejected = CallToolResult(content=[TextContent(type="text", text="no such city")], is_error=True)
    server = guard_server(make([SuiteTool(does=lambda _: rejected)]), fleet.gear())

    async def call(name: str, city: str) -> str:
        try:
            return text_of(await client.call_tool(name, {"city": city}))
        except MCPError as error:
            return error.error.message

    async with Client(server) as client:
        found = [await call(FORECAST, city) for city in "abcd"]
        unknown = [await call(name, "Oslo") for name in ("web", "google", "bing", "lycos")]
    assert found[3].startswith(f"Your last 3 calls of {FORECAST} were rejected")
    assert "Unknown tool" in unknown[2]
    assert unknown[3].startswith("Your last 3 calls of tools that don't exist were rejected")
    assert [event["status"] for event in fleet.events()] == ["error"] * 3 + ["rejected"]


async def test_clients_over_http_are_counted_by_their_session():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    server = guard_server(make_server([SuiteTool()]), fleet.gear(), terminal_after=2)
    app = server.streamable_http_app(json_response=True)

    def connected(mode: str) -> Client:
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8000")
        return Client(streamable_http_client("http://127.0.0.1:8000/mcp", http_client=http), mode=mode)

    async with server.session_manager.run():
        async with connected("legacy") as one, connected("legacy") as other:
            for client in (one, other):
                assert (await client.call_tool(FORECAST, {"city": "Oslo"})).is_error
            with pytest.raises(MCPError, match="The run ends"):
                await one.call_tool(FORECAST, {"city": "Oslo"})
        async with connected("auto") as stateless:
            for _ in range(4):
                assert (await stateless.call_tool(FORECAST, {"city": "Oslo"})).is_error


class UnauthorizedError(Exception):
    status_code = 401


def unauthorized(_city: str) -> str:
    raise UnauthorizedError("the key was revoked")


async def test_key_that_a_tool_rejects_three_times_is_refused_and_another_key_goes_on():
    fleet = InMemoryFleet()
    server = guard_server(make_server([SuiteTool(does=unauthorized)]), fleet.gear())
    app = server.streamable_http_app(json_response=True)
    found = {}
    async with server.session_manager.run():
        for key in ("old", "new"):
            transport = httpx2.ASGITransport(app)
            headers = {"X-Api-Key": key}
            http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers)
            async with Client(streamable_http_client("http://127.0.0.1:8000/mcp", http_client=http)) as client:
                found[key] = [text_of(await client.call_tool(FORECAST, {"city": city})) for city in "abcd"]
    assert found["old"][3].startswith(f"Your credentials for the tool {FORECAST} were rejected 3 times in a row")
    assert [text.startswith("Your credentials") for text in found["new"]] == [False] * 3 + [True]


def test_server_that_cannot_be_guarded_is_refused_with_a_hint():
    gear = InMemoryFleet().gear()
    server = guard_server(make_server([SuiteTool()]), gear)
    with pytest.raises(OptionError, match="Guard it once"):
        guard_server(server, gear)
    with pytest.raises(OptionError, match="Give it on_call_tool first"):
        guard_server(Server("empty"), gear)
    with pytest.raises(OptionError, match="an MCPServer or Server of the MCP SDK, not 'weather'"):
        guard_server("weather", gear)


EXPECTED = [
    "offered: get_forecast, get_climate, get_news",
    "get_forecast('Oslo') -> failed: Error executing tool get_forecast",
    "get_forecast('Rome') -> failed: ",
    "offered: get_forecast, get_climate, get_news",
    "get_forecast('Lima') -> usually mild in Lima",
    "get_forecast('Bonn') -> failed: Error executing tool get_climate",
    "offered: get_forecast, get_climate, get_news",
    "get_forecast('Bern') -> failed: The tool get_forecast is unavailable (circuit open). The rule consecutive_failures opened it.",
]


def test_example_of_an_mcp_server_prints_the_expected_lines():
    expect_example("mcp_server_tools.py", EXPECTED)
