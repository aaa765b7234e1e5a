"""The adapter of FastMCP passes the suite. The agent is a scripted client of a server behind the middleware."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.error_handling import RetryMiddleware
from fastmcp.server.providers.proxy import FastMCPProxy, ProxyClient
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.tests import asgi_client
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from switchgear import BreakerPolicy, classify
from switchgear.classify.tool_failure import META_KEY
from switchgear.integrations.fastmcp import SwitchgearMiddleware
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import BACKUP, FORECAST, AdapterDriver, AdapterSuite, SuiteRun, SuiteTool
from tests.frameworks.examples import expect_example
from tests.frameworks.scripted_client import play, text_of

FIRST = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)


def make_server(tools, *middleware: Middleware) -> FastMCP:
    mcp: Any = FastMCP("weather", middleware=list(middleware))
    for each in tools:
        mcp.tool(each.function())
    return mcp


@asynccontextmanager
async def connected(mcp: Any, *, http: bool = False, **options: Any):
    async with asgi_client(mcp, **options) if http else Client(mcp, **options) as client:
        yield client


class FastMCPDriver(AdapterDriver):
    framework = "fastmcp"
    not_possible: ClassVar[Mapping[str, str]] = {
        "outage_is_told_once_in_the_conversation_and_so_is_its_end": "a server does not see the client's prompt",
    }

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        middleware: list[Middleware] = []
        if gear is not None:
            middleware.append(SwitchgearMiddleware(gear, terminal_after=terminal_after))
        if retries:  # outermost, so that each attempt comes to the adapter
            middleware.insert(0, RetryMiddleware(max_retries=retries, base_delay=0))
        run = SuiteRun()
        async with connected(make_server(tools, *middleware), http=stream) as client:

            async def list_tools() -> set[str]:
                return {tool.name for tool in await client.list_tools()}

            async def call_tool(name: str, arguments: dict[str, Any]) -> str:
                return text_of(await client.call_tool(name, arguments, raise_on_error=False))

            await play(run, turns, list_tools=list_tools, call_tool=call_tool)
        return run

    def interrupt(self):
        asked = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
        params = ElicitRequestFormParams(message="Is that right?", requested_schema=asked)
        return InputRequiredResult(input_requests={"sure": ElicitRequest(params=params)})

    def error_value(self, text):
        raise ToolError(text)


class TestFastMCP(AdapterSuite):
    driver = FastMCPDriver()


def outage(_city: str) -> str:
    raise ConnectionError("[Errno 111] Connection refused")


@pytest.mark.parametrize(("globs", "found"), [((), ["tool", "tool"]), ((FORECAST,), ["server", "tool"])])
async def test_failed_result_that_a_tool_returns_is_judged_by_its_text_if_the_user_trusts_it(globs, found):
    fleet = InMemoryFleet()
    mcp: Any = FastMCP("weather", middleware=[SwitchgearMiddleware(fleet.gear(outages_in_text=globs))])

    @mcp.tool
    def get_forecast(city: str) -> ToolResult:
        return ToolResult("503 Service Unavailable" if city == "Oslo" else "no such city", is_error=True)

    async with Client(mcp) as client:
        for city in ("Oslo", "Atlantis"):
            await client.call_tool(FORECAST, {"city": city}, raise_on_error=False)
    assert [event["error_class"] for event in fleet.events(FORECAST)] == found


async def test_exception_that_the_server_wraps_has_the_class_and_type_of_the_original():
    fleet = InMemoryFleet()
    mcp = make_server([SuiteTool(does=lambda city: {}[city])], SwitchgearMiddleware(fleet.gear()))
    async with Client(mcp) as client:
        await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
    (event,) = fleet.events(FORECAST)
    assert (event["error_type"], event["error_class"]) == ("KeyError", "unknown")


async def test_refusal_says_in_its_meta_why_and_when_to_retry():
    fleet = InMemoryFleet(FIRST)
    gear = fleet.gear(local_policies=FIRST)
    async with Client(make_server([SuiteTool(does=outage)], SwitchgearMiddleware(gear))) as client:
        await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
        refused = await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
    assert refused.is_error
    said = refused.meta[META_KEY]
    assert (said["class"], said["code"], said["retryable"]) == ("reliability", "circuit_open", True)
    assert said["agentGuidance"] == text_of(refused)


@pytest.mark.parametrize("masks", [True, False])
async def test_refusal_quotes_the_last_error_for_who_asks_unless_the_server_masks_errors(masks):
    fleet = InMemoryFleet(FIRST)
    mcp: Any = FastMCP("weather", mask_error_details=masks)
    mcp.add_middleware(SwitchgearMiddleware(fleet.gear(local_policies=FIRST, include_last_error=True)))
    mcp.tool(SuiteTool(does=outage).function())
    async with Client(mcp) as client:
        for _ in range(2):
            refused = await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
    assert text_of(refused).startswith(f"The tool {FORECAST} is unavailable (circuit open).")
    assert ("Connection refused" in text_of(refused)) is not masks


async def test_error_that_ends_a_run_is_raised_by_the_client_and_opens_no_circuit_of_its_own():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    mcp = make_server([SuiteTool()], SwitchgearMiddleware(fleet.gear(), terminal_after=1))
    async with Client(mcp) as client:
        with pytest.raises(MCPError, match="The run ends") as raised:
            await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
    assert raised.value.error.data[META_KEY]["code"] == "circuit_open"
    assert classify(raised.value).error_class not in {"transport", "timeout", "server", "unknown"}


async def test_refusals_of_one_client_do_not_end_the_run_of_another_one():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    mcp = make_server([SuiteTool()], SwitchgearMiddleware(fleet.gear(), terminal_after=2))
    async with Client(mcp, mode="legacy") as one, Client(mcp, mode="legacy") as other:
        for client in (one, other):
            assert (await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)).is_error
        with pytest.raises(MCPError, match="The run ends"):
            await one.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)


async def test_unknown_clients_of_the_stateless_protocol_are_not_counted_together():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    mcp = make_server([SuiteTool()], SwitchgearMiddleware(fleet.gear(), terminal_after=2))
    async with connected(mcp, http=True) as client:
        for _ in range(4):
            assert (await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)).is_error


def rejecting(city: str) -> str:
    if city != "Oslo":
        raise ToolError("no such city")
    return "sunny"


async def called(client: Any, name: str, *cities: str) -> list[str]:
    """Return the texts of the results."""
    return [text_of(await client.call_tool(name, {"city": city}, raise_on_error=False)) for city in cities]


async def test_fourth_bad_call_of_a_client_is_refused_and_another_clients_is_not():
    fleet = InMemoryFleet()
    mcp = make_server([SuiteTool(does=rejecting)], SwitchgearMiddleware(fleet.gear()))
    async with Client(mcp, mode="legacy") as one, Client(mcp, mode="legacy") as other:
        *_, refused = await called(one, FORECAST, "a", "b", "c", "d")
        assert (
            refused
            == f'Your last 3 calls of {FORECAST} were rejected: "ToolError: no such city". Change the arguments or use another tool.'
        )
        assert await called(other, FORECAST, "d", "Oslo") == ["no such city", "sunny"]
        assert await called(one, FORECAST, "a", "Oslo") == [refused, "sunny"]


class UnauthorizedError(Exception):
    status_code = 401


def unauthorized(_city: str) -> str:
    raise UnauthorizedError("the token has expired")


async def test_token_that_a_tool_rejects_three_times_is_refused_and_another_token_goes_on():
    fleet = InMemoryFleet()
    mcp = make_server([SuiteTool(does=unauthorized)], SwitchgearMiddleware(fleet.gear()))
    found = {}
    for token in ("old", "new"):
        async with connected(mcp, http=True, headers={"Authorization": f"Bearer {token}"}) as client:
            found[token] = await called(client, FORECAST, *"abcd")
    assert found["old"][3].startswith(f"Your credentials for the tool {FORECAST} were rejected 3 times in a row")
    assert [text.startswith("Your credentials") for text in found["new"]] == [False] * 3 + [True]
    assert "Bearer" not in str(fleet.events())


async def test_three_unknown_names_in_a_row_are_refused_and_a_real_call_starts_afresh():
    fleet = InMemoryFleet()
    mcp = make_server([SuiteTool()], SwitchgearMiddleware(fleet.gear()))
    async with Client(mcp, mode="legacy") as client:
        *_, refused = [(await called(client, name, "Oslo"))[0] for name in ("web", "google", "bing", "lycos")]
        assert refused.startswith("Your last 3 calls of tools that don't exist were rejected: \"no tool is called")
        assert await called(client, FORECAST, "Oslo") == ["sunny in Oslo"]
        assert "Unknown tool" in (await called(client, "bing", "Oslo"))[0]
    assert [event["tool_name"] for event in fleet.events()] == [FORECAST]


async def test_fallback_runs_before_any_client_has_listed_the_tools():
    fleet = InMemoryFleet()
    fleet.open_circuit(FORECAST)
    backup = SuiteTool(BACKUP, "cloudy in {}".format)
    gear = fleet.gear(fallbacks={FORECAST: BACKUP})
    async with Client(make_server([SuiteTool(), backup], SwitchgearMiddleware(gear))) as client:
        assert (await client.call_tool(FORECAST, {"city": "Oslo"})).data == "cloudy in Oslo"


async def test_tool_that_was_removed_after_the_list_counts_nothing():
    fleet = InMemoryFleet(FIRST)
    mcp = make_server([SuiteTool()], SwitchgearMiddleware(fleet.gear(local_policies=FIRST)))
    async with Client(mcp) as client:
        await client.list_tools()
        mcp.local_provider.remove_tool(FORECAST)
        found = await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
    assert "Unknown tool" in text_of(found)
    assert fleet.events() == []


async def test_tool_that_was_added_after_the_list_is_guarded():
    fleet = InMemoryFleet()
    mcp: Any = make_server([SuiteTool()], SwitchgearMiddleware(fleet.gear()))
    async with Client(mcp) as client:
        await client.list_tools()
        mcp.tool(SuiteTool(BACKUP).function())
        await client.call_tool(BACKUP, {"city": "Oslo"})
    assert [event["status"] for event in fleet.events(BACKUP)] == ["success"]


async def test_failure_of_a_tool_that_is_called_through_another_one_counts_once():
    fleet = InMemoryFleet(FIRST)
    mcp: Any = make_server([SuiteTool(does=outage)], SwitchgearMiddleware(fleet.gear(local_policies=FIRST)))
    mcp.add_transform(BM25SearchTransform())
    async with Client(mcp) as client:
        for _ in range(2):
            await client.call_tool("call_tool", {"name": FORECAST, "arguments": {"city": "Oslo"}}, raise_on_error=False)
    assert fleet.state(FORECAST) == "open"
    assert fleet.state("call_tool") == "closed"


async def test_answered_error_of_an_upstream_is_the_tools_and_a_refusal_counts_nowhere():
    inner, outer = InMemoryFleet(FIRST), InMemoryFleet(BreakerPolicy(consecutive_failures=9))
    upstream = make_server([SuiteTool(does=outage)], SwitchgearMiddleware(inner.gear(local_policies=FIRST)))
    proxy = create_proxy(upstream)
    proxy.add_middleware(SwitchgearMiddleware(outer.gear(), circuit_of="mcp:weather:{}".format))
    async with Client(proxy) as client:
        texts = [text_of(await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)) for _ in range(2)]
    assert "Connection refused" in texts[0]
    assert f"The tool {FORECAST} is unavailable (circuit open)." in texts[1]
    assert [event["error_class"] for event in outer.events(f"mcp:weather:{FORECAST}")] == ["tool", "policy"]


async def test_proxy_opens_the_circuit_of_an_upstream_that_goes_away():
    fleet = InMemoryFleet(FIRST)
    upstream: Any = make_server([SuiteTool()])
    proxy = FastMCPProxy(client_factory=lambda: ProxyClient(upstream))
    proxy.add_middleware(SwitchgearMiddleware(fleet.gear(local_policies=FIRST)))
    async with Client(proxy) as client:
        assert (await client.call_tool(FORECAST, {"city": "Oslo"})).data == "sunny in Oslo"
        upstream = "http://127.0.0.1:9/mcp"  # nothing listens there
        await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
        refused = await client.call_tool(FORECAST, {"city": "Oslo"}, raise_on_error=False)
    assert f"The tool {FORECAST} is unavailable (circuit open)." in text_of(refused)
    assert [event.get("error_class") for event in fleet.events(FORECAST)] == [None, "transport", None]


EXPECTED = [
    "offered: get_forecast, get_climate, get_news",
    "get_forecast('Oslo') -> failed: Error calling tool 'get_forecast': weather.example refused the connection",
    "get_forecast('Rome') -> failed: ",
    "offered: get_forecast, get_climate, get_news",
    "get_forecast('Lima') -> usually mild in Lima",
    "get_forecast('Bonn') -> failed: Error calling tool 'get_climate': climate.example refused the connection",
    "offered: get_forecast, get_climate, get_news",
    "get_forecast('Bern') -> failed: The tool get_forecast is unavailable (circuit open).",
]


def test_example_of_fastmcp_prints_the_expected_lines():
    expect_example("fastmcp_server.py", EXPECTED)
