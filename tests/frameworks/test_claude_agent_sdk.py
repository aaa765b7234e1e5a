"""The adapter of the Claude Agent SDK passes the suite."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server, query, tool

from switchgear import Switchgear
from switchgear.integrations.claude_agent_sdk import guard_options, observed_mcp_server
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import AdapterDriver, AdapterSuite, SuiteRun
from switchgear_schemas import BreakerPolicy
from switchgear_schemas.errors import SwitchgearError
from tests.frameworks.claude_cli import SESSION, FakeCLI
from tests.frameworks.examples import expect_example
from tests.support.limits import READY_S

PREFIX = "mcp__suite__"
FORECAST = "mcp:weather:forecast"
EXPECTED = [
    "prompt 1",
    "  context: None",
    "  the server closes the connection",
    "prompt 2",
    "  the server closes the connection",
    "  context: [tool status] These tools are unavailable: mcp__weather__get_forecast (use mcp__weather__get_climate instead). ",
    "prompt 3",
    "  context: None",
    "  refused: The tool mcp__weather__get_forecast is unavailable (circuit open).",
    "Use mcp__weather__get_climate instead.",
    "a new session hides: mcp__weather__get_forecast",
]


def text_of(found: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(found)}]}


def made(each: Any) -> Any:
    """Make a tool of the SDK. Its handler is the innermost function."""

    async def handler(given: dict[str, Any]) -> Any:
        found = await each.acall(given["city"]) if each.is_async else each.call(given["city"])
        return found if isinstance(found, dict) else text_of(found)

    guarded = handler if each.guard is None else each.guard(handler)
    return tool(each.name, "Return the weather of a city.", {"city": str})(guarded)


class ClaudeDriver(AdapterDriver):
    framework = "claude-agent-sdk"
    swaps = False
    not_possible: ClassVar = {
        "retries_of_the_framework_count_once": "Claude Code doesn't retry a tool's call, so hooks see each call once",
        "cancellation_after_the_limit_counts_as_a_timeout": "its hooks call every cancellation an interrupt, as that of a person",
    }
    _cli: FakeCLI
    _client: ClaudeSDKClient | None = None
    _interrupt: asyncio.Task[None]

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        names = [[(PREFIX + call.tool, call.arguments) for call in calls] for calls in turns]
        cli = self._cli = FakeCLI(names)
        server = create_sdk_mcp_server if gear is None else observed_mcp_server
        options = ClaudeAgentOptions(
            mcp_servers={"suite": server("suite", tools=[made(each) for each in tools])}, system_prompt="Be brief."
        )
        if gear is not None:
            options = guard_options(
                gear, options, circuit_of=lambda name: name.removeprefix(PREFIX), terminal_after=terminal_after
            )
        run = SuiteRun()
        try:
            if stream:
                async for _ in query(prompt="How is the weather?", options=options, transport=cli):
                    pass
            else:
                async with ClaudeSDKClient(options, transport=cli) as self._client:
                    await self._client.query("How is the weather?")
                    async for _ in self._client.receive_response():
                        pass
        except Exception as error:
            run.error = error
        run.results = [text.replace(PREFIX, "") for text in cli.results]
        offered = {name.removeprefix(PREFIX) for name in cli.tools if name not in options.disallowed_tools}
        run.offered, run.requests = [offered] * cli.requests, cli.requests
        run.prompts = [options.system_prompt] * cli.requests
        run.conversation = [text.replace(PREFIX, "") for text in cli.conversation]
        return run

    def interrupt(self):
        self._cli.stopping = True
        self._interrupt = asyncio.get_running_loop().create_task(self._client.interrupt())
        return "never mind"

    def error_value(self, text):
        return {**text_of(text), "is_error": True}


class TestClaudeAgentSDK(AdapterSuite):
    driver = ClaudeDriver()


async def session(cli: FakeCLI, options: ClaudeAgentOptions) -> None:
    async with asyncio.timeout(READY_S), ClaudeSDKClient(options, transport=cli) as client:
        await client.query("How is the weather?")
        async for _ in client.receive_response():
            pass


def weather(does, *, observed=True):
    @tool("forecast", "Return the weather of a city.", {"city": str})
    async def forecast(given):
        return text_of(does(given["city"]))

    make = observed_mcp_server if observed else create_sdk_mcp_server
    return {"weather": make("weather", tools=[forecast])}


def fails(error):
    def fail(_city):
        raise error

    return fail


def call_of(city="Oslo"):
    return ("mcp__weather__forecast", {"city": city})


async def test_circuit_of_an_mcp_tool_has_the_name_of_its_server_and_the_refusal_names_the_alternative_as_claude_does():
    fleet = InMemoryFleet()
    gear = fleet.gear(fallbacks={FORECAST: "mcp:weather:climate"})
    cli = FakeCLI([[call_of()]], "weather")
    options = guard_options(gear, ClaudeAgentOptions(mcp_servers=weather("sunny in {}".format)))
    fleet.open_circuit(FORECAST)
    await session(cli, options)
    assert cli.results[0].startswith("The tool mcp__weather__forecast is unavailable")
    assert "Use mcp__weather__climate instead." in cli.results[0]
    (event,) = fleet.events(FORECAST)
    assert event["session_id"] == SESSION


async def test_duration_is_that_of_claude_code_without_permissions_and_hooks():
    fleet = InMemoryFleet()
    options = guard_options(fleet.gear(), ClaudeAgentOptions(mcp_servers=weather(str)))
    hooks = {event: matchers[0].hooks[0] for event, matchers in options.hooks.items()}
    data = {"session_id": "s", "tool_name": "mcp__other__search", "tool_input": {}, "tool_use_id": "t"}
    assert await hooks["PreToolUse"](data, "t", {}) == {}
    fleet.clock.advance(60)
    await hooks["PostToolUse"]({**data, "tool_response": [], "duration_ms": 120}, "t", {})
    (event,) = fleet.events("mcp:other:search")
    assert (event["status"], event["execution_time_ms"]) == ("success", 120)


@pytest.mark.parametrize(
    ("error", "globs", "found"),
    [
        ("Request failed with status code 503", (), "tool"),
        ("Request failed with status code 503", ("mcp:other:*",), "server"),
        ("MCP error -32000: Connection closed", (), "transport"),
        ("The page says: MCP error -32000: Connection closed", (), "tool"),
    ],
)
async def test_text_of_a_failure_counts_if_the_user_trusts_it_or_the_client_says_it(error, globs, found):
    fleet = InMemoryFleet()
    options = guard_options(fleet.gear(outages_in_text=globs), ClaudeAgentOptions(mcp_servers=weather(str)))
    hooks = {event: matchers[0].hooks[0] for event, matchers in options.hooks.items()}
    data = {"session_id": "s", "tool_name": "mcp__other__search", "tool_input": {}, "tool_use_id": "t"}
    await hooks["PreToolUse"](data, "t", {})
    await hooks["PostToolUseFailure"]({**data, "error": error}, "t", {})
    assert [event["error_class"] for event in fleet.events("mcp:other:search")] == [found]


async def test_built_in_tools_are_guarded_only_if_a_glob_matches_them():
    for globs, count in (("mcp__*", 0), (["mcp__*", "Web*"], 1)):
        fleet = InMemoryFleet()
        options = guard_options(fleet.gear(), tools=globs)
        hooks = {event: matchers[0].hooks[0] for event, matchers in options.hooks.items()}
        data = {"session_id": "s", "tool_name": "WebFetch", "tool_input": {}, "tool_use_id": "t"}
        await hooks["PreToolUse"](data, "t", {})
        await hooks["PostToolUseFailure"]({**data, "error": "Request failed with status code 503"}, "t", {})
        assert [event["error_class"] for event in fleet.events("WebFetch")] == ["tool"] * count


async def test_exception_of_a_tool_counts_by_its_type_only_on_an_observed_server():
    for observed, expected in ((True, "transport"), (False, "tool")):
        fleet = InMemoryFleet()
        servers = weather(fails(ConnectionError("gone")), observed=observed)
        await session(
            FakeCLI([[call_of()]], "weather"), guard_options(fleet.gear(), ClaudeAgentOptions(mcp_servers=servers))
        )
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == expected


async def test_denied_permission_gives_the_probe_back_when_the_turn_ends():
    policy = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)
    fleet = InMemoryFleet(policy)
    gear, answers = fleet.gear(local_policies=policy), [fails(ConnectionError("gone")), "sunny in {}".format]
    servers = weather(lambda city: answers.pop(0)(f"{city}"))
    options = guard_options(gear, ClaudeAgentOptions(mcp_servers=servers))
    await session(FakeCLI([[call_of()]], "weather"), options)
    assert fleet.state(FORECAST) == "open"
    fleet.advance(31)
    denied = FakeCLI([[call_of()]], "weather")
    denied.denies.add("mcp__weather__forecast")
    await session(denied, options)
    assert denied.results == ["The user doesn't want to take this action right now."]
    probe = FakeCLI([[call_of()]], "weather")
    await session(probe, options)
    assert probe.results == ["sunny in Oslo"]
    assert fleet.state(FORECAST) == "closed"


async def test_an_outage_and_its_end_are_told_once_after_a_prompt():
    fleet = InMemoryFleet()
    options = guard_options(fleet.gear(), ClaudeAgentOptions(mcp_servers=weather("sunny in {}".format)))
    contexts = []
    for change in (fleet.open_circuit, None, fleet.close_circuit, None):
        if change is not None:
            change(FORECAST)
        fleet.advance(61)
        cli = FakeCLI([], "weather")
        await session(cli, options)
        contexts.append("".join(cli.contexts))
    assert contexts[0].startswith("[tool status] These tools are unavailable: mcp__weather__forecast. ")
    assert contexts[1:] == ["", "[tool status] These tools may be called again: mcp__weather__forecast.", ""]


async def test_open_circuits_of_the_fleet_hide_the_tools_of_servers_that_are_other_processes():
    fleet = InMemoryFleet()
    gear, stable = fleet.gear(tool_list="new_sessions"), fleet.gear()
    for each in (gear, stable):
        each.try_acquire("mcp:search:web").success()  # the client starts, and follows the fleet
    fleet.open_circuit("mcp:search:web")
    fleet.open_circuit("mcp:other:web")
    given = ClaudeAgentOptions(mcp_servers={"search": {"command": "search-server"}}, disallowed_tools=["Bash"])
    assert guard_options(gear, given).disallowed_tools == ["Bash", "mcp__search__web"]
    assert guard_options(stable, given).disallowed_tools == ["Bash"]
    assert given.disallowed_tools == ["Bash"]
    assert given.hooks is None


async def test_hooks_of_the_user_run_too():
    seen = []

    async def note(data, _tool_use_id, _context):
        seen.append(data["hook_event_name"])
        return {}

    given = ClaudeAgentOptions(
        mcp_servers=weather("sunny in {}".format),
        hooks={event: [HookMatcher(hooks=[note])] for event in ("PreToolUse", "PreCompact")},
    )
    fleet = InMemoryFleet()
    options = guard_options(fleet.gear(), given)
    await session(FakeCLI([[call_of()]], "weather"), options)
    assert seen == ["PreToolUse"]
    assert "PreCompact" in options.hooks
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]


def test_guard_options_rejects_impossible_globs():
    with pytest.raises(SwitchgearError, match="tools must be a glob"):
        guard_options(InMemoryFleet().gear(), tools=[1])


def test_guard_on_a_tool_object_names_the_adapter():
    @tool("forecast", "Return the weather of a city.", {"city": str})
    async def forecast(_given):
        return text_of("sunny")

    with pytest.raises(SwitchgearError, match=r"claude_agent_sdk\.guard_options"):
        Switchgear.local().guard("forecast")(forecast)


def test_example_prints_the_expected_lines():
    expect_example("claude_agent_sdk_agent.py", EXPECTED)
