"""The adapter of the OpenAI Agents SDK passes the suite, with function tools and with the tools of an MCP server."""

from __future__ import annotations

import asyncio
import copy
import itertools
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import pytest
from agents import (
    Agent,
    Model,
    ModelProvider,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    UserError,
    function_tool,
    handoff,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent, Tool

from switchgear.classify.tool_failure import META_KEY
from switchgear.integrations.openai_agents import SwitchgearRunner
from switchgear.testing.adapter_suite import (
    BACKUP,
    FORECAST,
    NEWS,
    AdapterDriver,
    AdapterSuite,
    SuiteCall,
    SuiteRun,
    SuiteTool,
)
from switchgear.testing.fleet import InMemoryFleet
from tests.frameworks.examples import expect_example

_APPROVALS_COME_FIRST = "approvals come before the call, and a tool can't pause the run from within"
_NO_TRACING = {"tracing_disabled": True}
_ids = itertools.count()


def script(turns):
    calls = [
        [function_call(call.tool, dict(call.arguments), call_id=f"call-{next(_ids)}") for call in calls]
        for calls in turns
    ]
    return ScriptedModel([*calls, [assistant_message("done")]])


class OpenAIAgentsDriver(AdapterDriver):
    framework = "agents"
    not_possible: ClassVar = {
        "interrupt_or_deferral_does_not_count": _APPROVALS_COME_FIRST,
        "probe_of_an_interrupted_call_is_released": _APPROVALS_COME_FIRST,
        "retries_of_the_framework_count_once": "the framework doesn't retry tools",
        "error_as_a_value_counts_as_the_tools_error": "a function tool has no failed result: it raises",
        "error_as_a_value_counts_by_its_text_if_the_user_trusts_it": "a function tool has no failed result: it raises",
    }

    def agent(self, tools, **options):
        return Agent(
            "assistant", instructions="Be brief.", tools=[function_tool(each.function()) for each in tools], **options
        )

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        model = script(turns)
        runner = Runner if gear is None else SwitchgearRunner(gear, terminal_after=terminal_after)
        agent = self.agent(tools, model=model)
        run, items = SuiteRun(), []
        try:
            if not all(each.is_async for each in tools):
                items = (await asyncio.to_thread(run_sync, runner, agent)).new_items
            elif stream:
                streaming = runner.run_streamed(agent, "How?", run_config=_NO_TRACING)
                async for event in streaming.stream_events():
                    if event.type == "run_item_stream_event":
                        items.append(event.item)
            else:
                items = (await runner.run(agent, "How?", run_config=_NO_TRACING, max_turns=len(turns) + 1)).new_items
        except Exception as error:
            run.error = error
        run.results = [text_of(item.output) for item in items if item.type == "tool_call_output_item"]
        run.offered = [{tool.name for tool in call.tools} for call in model.calls]
        run.prompts = [call.system_instructions for call in model.calls]
        run.conversation = [said(call.input) for call in model.calls]
        run.requests = len(model.calls)
        return run

    def interrupt(self):
        raise NotImplementedError


def said(given):
    return f"\n{given}" if isinstance(given, str) else "".join(f"\n{each.get('content', each)}" for each in given)


def run_sync(runner, agent):
    """Run in a loop that is closed afterwards. The SDK leaves its own open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return runner.run_sync(agent, "How?", run_config=_NO_TRACING)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def text_of(output):
    return output["text"] if isinstance(output, dict) else output


class Server(MCPServer):
    """An MCP server in this process."""

    def __init__(self, tools):
        super().__init__()
        self.tools = {each.name: each for each in tools}

    async def connect(self):
        pass

    async def cleanup(self):
        pass

    @property
    def name(self):
        return "weather"

    async def list_tools(self, run_context=None, agent=None):
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        return [Tool(name=name, description="Weather", inputSchema=schema) for name in self.tools]

    async def call_tool(self, tool_name, arguments, meta=None):
        if "city" not in arguments:
            return CallToolResult(content=[TextContent(type="text", text="city is missing")], isError=True)
        found = await self.tools[tool_name].acall(arguments["city"])
        if isinstance(found, CallToolResult):
            return found
        return CallToolResult(content=[TextContent(type="text", text=found)])

    async def list_prompts(self):
        raise NotImplementedError

    async def get_prompt(self, name, arguments=None):
        raise NotImplementedError


class McpDriver(OpenAIAgentsDriver):
    not_possible: ClassVar = {
        "interrupt_or_deferral_does_not_count": _APPROVALS_COME_FIRST,
        "probe_of_an_interrupted_call_is_released": _APPROVALS_COME_FIRST,
        "retries_of_the_framework_count_once": "the SDK's MCP servers retry within a call, which the adapter sees once",
        "guarded_function_is_counted_once_and_its_circuit_filters": "the function is in the server's process",
    }

    def agent(self, tools, **options):
        return Agent("assistant", instructions="Be brief.", mcp_servers=[Server(tools)], **options)

    def error_value(self, text):
        return CallToolResult(content=[TextContent(type="text", text=text)], isError=True)


class TestOpenAIAgents(AdapterSuite):
    driver = OpenAIAgentsDriver()


class TestOpenAIAgentsWithMcp(AdapterSuite):
    driver = McpDriver()


# -- what is special to this framework --------------------------------------------------------------------------------

ONE_CALL = ((SuiteCall(),),)
EXPECTED = [
    "offered: get_forecast, get_news, backup_forecast",
    "get_forecast -> An error occurred while running the tool.",
    "offered: get_forecast, get_news, backup_forecast",
    "get_forecast -> cloudy in Oslo, says the backup",
    "get_news -> no news of Oslo",
    "offered: get_forecast, get_news, backup_forecast",
    "get_forecast -> The tool get_forecast is unavailable (circuit open).",
    "  The rule consecutive_failures opened it.",
    "  Its last error was a broken connection.",
    "answer: I can't say.",
]


@dataclass
class Weather:
    """What a tool with a schema for its results returns."""

    text: str


def weather(**options):
    """Return the tool of the suite as a function tool with options of the SDK."""
    return function_tool(SuiteTool().function(), **options)


def run(gear, agent, *, terminal_after=None, circuit_of=None, given="How?", **options):
    runner = SwitchgearRunner(gear, terminal_after=terminal_after, circuit_of=circuit_of)
    return asyncio.run(runner.run(agent, given, **{"run_config": RunConfig(tracing_disabled=True), **options}))


def outputs(result):
    return [text_of(item.output) for item in result.new_items if item.type == "tool_call_output_item"]


def test_a_tools_own_time_limit_counts_as_a_timeout() -> None:
    fleet = InMemoryFleet()
    slow = function_tool(SuiteTool(hangs=True).function(), timeout=0.05)
    result = run(fleet.gear(), Agent("a", tools=[slow], model=script(ONE_CALL)))
    assert "timed out after 0.05 seconds" in outputs(result)[0]
    (event,) = fleet.events(FORECAST)
    assert (event["status"], event["error_class"]) == ("timeout", "timeout")


def test_call_that_waits_for_an_approval_is_asked_for_only_when_it_is_made() -> None:
    fleet = InMemoryFleet()
    gear, model = fleet.gear(), script(ONE_CALL)
    paused = run(gear, Agent("a", tools=[weather(needs_approval=True)], model=model))
    assert len(paused.interruptions) == 1
    assert fleet.events(FORECAST) == []
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    finished = run(gear, paused.last_agent, given=state)
    assert finished.final_output == "done"
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]


def test_approved_call_is_refused_if_its_circuit_opened_while_it_waited() -> None:
    fleet = InMemoryFleet()
    gear, model = fleet.gear(), script(ONE_CALL)
    paused = run(gear, Agent("a", tools=[weather(needs_approval=True)], model=model))
    fleet.open_circuit(FORECAST)
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    finished = run(gear, paused.last_agent, given=state)
    assert "is unavailable (circuit forced open)" in outputs(finished)[0]
    assert finished.final_output == "done"


def test_refusal_has_structured_data_beside_its_text_and_other_results_have_the_tools_own() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear()
    for expected in ({"mine": "sunny in Oslo"}, None):
        tool = weather(custom_data_extractor=lambda data: {"mine": data.output})
        result = run(gear, Agent("a", tools=[tool], model=script(ONE_CALL)))
        (item,) = [each for each in result.new_items if each.type == "tool_call_output_item"]
        if expected:
            assert item.custom_data == expected
        fleet.open_circuit(FORECAST)
    assert item.custom_data[META_KEY]["code"] == "circuit_open"
    assert type(copy.deepcopy(item.raw_item["output"])) is str


def test_tools_own_text_for_failures_reaches_the_model_and_the_failure_counts() -> None:
    fleet = InMemoryFleet()

    def broken(_city: str) -> str:
        raise ConnectionError("refused")

    tool = function_tool(
        SuiteTool(does=broken).function(), failure_error_function=lambda _ctx, error: f"sorry: {error}"
    )
    result = run(fleet.gear(), Agent("a", tools=[tool], model=script(ONE_CALL)))
    assert outputs(result) == ["sorry: refused"]
    assert fleet.events(FORECAST)[0]["error_class"] == "transport"


@pytest.mark.parametrize("wrapped", [False, True], ids=["an agent", "a handoff object"])
def test_agents_that_hand_off_to_one_another_are_all_guarded(wrapped: bool) -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear(tool_list="hide", hide_after_s=0)
    clerk = Agent("clerk", tools=[weather()], model=script(ONE_CALL))
    desk = Agent("desk", model=script([(SuiteCall("transfer_to_clerk", {}),)]))
    desk.handoffs = [handoff(clerk) if wrapped else clerk]
    clerk.handoffs = [desk]
    fleet.open_circuit(FORECAST)
    result = run(gear, desk)
    assert result.last_agent.name == "clerk"
    assert "is unavailable (circuit forced open)" in outputs(result)[-1]
    assert [{tool.name for tool in call.tools} for call in clerk.model.calls] == [set(), set()]
    assert all(handing is not desk for handing in result.last_agent.handoffs)


def test_model_that_is_given_by_name_is_not_offered_hidden_tools() -> None:
    fleet = InMemoryFleet()
    model = script(ONE_CALL)

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Model:
            assert model_name == "some-model"
            return model

    fleet_gear = fleet.gear(tool_list="hide", hide_after_s=0)
    fleet.open_circuit(FORECAST)
    agent = Agent("a", tools=[weather(), function_tool(SuiteTool(NEWS).function())], model="some-model")
    run(fleet_gear, agent, run_config=RunConfig(model_provider=Provider(), tracing_disabled=True))
    assert [[tool.name for tool in call.tools] for call in model.calls] == [[NEWS], [NEWS]]


def test_tool_that_the_model_is_made_to_call_stays_in_the_list() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear(tool_list="hide", hide_after_s=0)
    fleet.open_circuit(FORECAST)
    for choice in ("required", FORECAST):
        model = script(())
        settings = ModelSettings(tool_choice=choice)
        run(gear, Agent("a", tools=[weather()], model=model, model_settings=settings))
        assert [tool.name for tool in model.calls[0].tools] == [FORECAST]


def test_agent_that_is_run_again_is_guarded_once() -> None:
    fleet = InMemoryFleet()
    gear, model = fleet.gear(), script(ONE_CALL)
    model.extend([[function_call(FORECAST, {"city": "Bergen"}, call_id="second")], [assistant_message("done")]])
    first = run(
        gear, Agent("a", tools=[weather()], mcp_servers=[Server([SuiteTool(NEWS)])], model=model), terminal_after=5
    )
    run(gear, first.last_agent.clone(name="b"), terminal_after=5)
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success", "success"]


def test_inner_tools_of_an_agent_that_is_a_tool_are_guarded_if_it_was_guarded() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear()
    inner = Agent("expert", tools=[weather()], model=script(ONE_CALL))
    tool = SwitchgearRunner(gear).guarded(inner).as_tool("ask_expert", "Ask.")
    outer = Agent("a", tools=[tool], model=script(((SuiteCall("ask_expert", {"input": "How?"}),),)))
    assert outputs(run(gear, outer)) == ["done"]
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]
    assert [event["status"] for event in fleet.events("ask_expert")] == ["success"]


def test_agent_that_is_a_tool_counts_when_it_ends_and_not_when_it_waits_for_an_approval() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear()
    inner = Agent("expert", tools=[weather(needs_approval=True)], model=script(ONE_CALL))
    turns = ((SuiteCall("ask_expert", {"input": "How?"}),),)
    paused = run(gear, Agent("a", tools=[inner.as_tool("ask_expert", "Ask.")], model=script(turns)))
    assert [event.get("error_class") for event in fleet.events("ask_expert")] == ["policy"]
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    assert run(gear, paused.last_agent, given=state).final_output == "done"
    assert [event.get("error_class") for event in fleet.events("ask_expert")] == ["policy", None]


def test_tool_with_a_schema_for_its_results_is_refused_by_a_failure() -> None:
    fleet = InMemoryFleet()
    gear, model = fleet.gear(), script(ONE_CALL)
    fleet.open_circuit(FORECAST)
    result = run(gear, Agent("a", tools=[weather(output_type=Weather)], model=model))
    if version("openai-agents").startswith("0.23."):  # the only one in which the model reads nothing of an exception
        assert outputs(result) == ["An error occurred while running the tool. Please try again."]
    else:
        assert "is unavailable (circuit forced open)" in outputs(result)[0]
    assert result.final_output == "done"


def test_runs_own_texts_for_errors_stay() -> None:
    model = script(((SuiteCall("no_such_tool"),),))
    config = RunConfig(
        tracing_disabled=True,
        tool_not_found_behavior="return_error_to_model",
        tool_error_formatter=lambda failed: f"no {failed.tool_name} here",
    )
    result = run(InMemoryFleet().gear(), Agent("a", tools=[weather()], model=model), run_config=config)
    assert outputs(result) == ["no no_such_tool here"]


@pytest.mark.parametrize(
    ("behavior", "final"),
    [
        ("run_llm_again", "done"),
        ("stop_on_first_tool", "sunny in Oslo"),
        ({"stop_at_tool_names": [FORECAST]}, "sunny in Oslo"),
        ({"stop_at_tool_names": [NEWS]}, "done"),
    ],
)
def test_agents_own_way_to_end_after_a_tool_stays(behavior: Any, final: str) -> None:
    agent = Agent("a", tools=[weather()], model=script(ONE_CALL), tool_use_behavior=behavior)
    assert run(InMemoryFleet().gear(), agent, terminal_after=2).final_output == final


def test_run_that_ends_says_so_in_its_output() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear()
    fleet.open_circuit(FORECAST)
    result = run(gear, Agent("a", tools=[weather()], model=script(ONE_CALL)), terminal_after=1)
    assert result.final_output.startswith(
        f"The run ends: too many tool calls were refused. The tool {FORECAST} is unavailable"
    )


def test_events_carry_the_name_of_the_conversation() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear()
    run(gear, Agent("a", tools=[weather()], model=script(ONE_CALL)), session=SQLiteSession("talk-7"))
    grouped = RunConfig(group_id="group-8", tracing_disabled=True)
    run(gear, Agent("a", tools=[weather()], model=script(ONE_CALL)), run_config=grouped)
    assert [event["session_id"] for event in fleet.events(FORECAST)] == ["talk-7", "group-8"]


def test_tool_that_needs_an_approval_never_stands_in_for_another_one() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear(fallbacks={FORECAST: BACKUP})
    backup = SuiteTool(BACKUP)
    fleet.open_circuit(FORECAST)
    tools = [weather(), function_tool(backup.function(), needs_approval=True)]
    result = run(gear, Agent("a", tools=tools, model=script(ONE_CALL)))
    assert backup.calls == []
    assert f"Use {BACKUP} instead." in outputs(result)[0]


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ("HTTP error 503", "server"),
        ("HTTP error 429", "rate_limited"),
        ("the page 'x': HTTP error 503", "unknown"),
        ("HTTP error 503 Service Unavailable", "unknown"),
        ("Connection lost. The server may have disconnected.", "unknown"),
        ("missing required parameters: city", "invalid_input"),
    ],
)
def test_failure_that_the_sdk_reports_about_an_mcp_server_has_a_class(text: str, error_class: str) -> None:
    def fail(_city: str) -> str:
        raise UserError(f"Failed to call tool '{FORECAST}' on MCP server 'weather': {text}")

    fleet = InMemoryFleet()
    run(fleet.gear(), Agent("a", mcp_servers=[Server([SuiteTool(does=fail)])], model=script(ONE_CALL)))
    assert fleet.events(FORECAST)[0]["error_class"] == error_class


def test_mcp_tool_has_the_circuit_of_the_name_that_the_model_knows() -> None:
    fleet = InMemoryFleet()
    gear, name = fleet.gear(), f"mcp_weather__{FORECAST}"
    config = {"include_server_in_tool_names": True}
    agent = Agent("a", mcp_servers=[Server([SuiteTool()])], mcp_config=config, model=script(((SuiteCall(name),),)))
    run(gear, agent, circuit_of={name: "mcp:weather:get_forecast"})
    assert [event["status"] for event in fleet.events("mcp:weather:get_forecast")] == ["success"]


def test_example_prints_what_it_promises() -> None:
    expect_example("openai_agents_agent.py", EXPECTED)
