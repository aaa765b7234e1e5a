"""The adapter of pydantic-ai passes the suite."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, ModelRetry, Tool, ToolFailed
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipToolExecution, UsageLimitExceeded
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.toolsets import FunctionToolset

from switchgear.integrations.pydantic_ai import SwitchgearCapability
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
from switchgear_schemas import BreakerPolicy
from tests.frameworks.examples import expect_example


class Retrying(AbstractCapability):
    """Makes a failed call again, as capabilities may."""

    def __init__(self, times):
        self.times = times

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        for _ in range(self.times):
            try:
                return await handler(args)
            except ConnectionError:
                pass
        return await handler(args)


class Script:
    """A model that asks for the calls of each turn, then answers "done"."""

    def __init__(self, turns):
        self.turns = list(turns)
        self.seen = []
        self.conversation = []

    def _calls(self, messages, info):
        self.seen.append(info)
        self.conversation.append(
            "".join(f"\n{part.part_kind}: {getattr(part, 'content', '')}" for each in messages for part in each.parts)
        )
        said = sum(isinstance(message, ModelResponse) for message in messages)
        return self.turns[said] if said < len(self.turns) else ()

    def answer(self, messages, info):
        calls = self._calls(messages, info)
        return ModelResponse([ToolCallPart(call.tool, dict(call.arguments)) for call in calls] or [TextPart("done")])

    async def stream(self, messages, info):
        calls = self._calls(messages, info)
        if not calls:
            yield "done"
        for number, call in enumerate(calls):
            yield {number: DeltaToolCall(call.tool, '{"city": "Oslo"}', tool_call_id=f"call-{number}")}

    def model(self):
        return FunctionModel(self.answer, stream_function=self.stream)


class PydanticAIDriver(AdapterDriver):
    framework = "pydantic_ai"

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        own = [] if gear is None else [SwitchgearCapability(gear, terminal_after=terminal_after)]
        script, run, messages = Script(turns), SuiteRun(), []
        capabilities = [Retrying(retries)] if retries else []  # outside, so that each attempt comes to the adapter
        agent = Agent(
            script.model(),
            instructions="Be brief.",
            tools=[each.function() for each in tools],
            capabilities=[*capabilities, *own],
            output_type=[str, DeferredToolRequests],
        )
        try:
            if not all(each.is_async for each in tools):
                messages = (await asyncio.to_thread(run_sync, agent)).all_messages()
            elif stream:
                async with agent.run_stream("How?") as streaming:
                    await streaming.get_output()
                messages = streaming.all_messages()
            else:
                messages = (await agent.run("How?")).all_messages()
        except Exception as error:
            run.error = error
        run.results = returned(messages)
        run.offered = [{tool.name for tool in info.function_tools} for info in script.seen]
        run.prompts = [info.instructions for info in script.seen]
        run.conversation = script.conversation
        run.requests = len(script.seen)
        return run

    def interrupt(self):
        raise ApprovalRequired

    def error_value(self, text):
        raise ToolFailed(text)


def run_sync(agent):
    """Run in a loop that is closed afterwards. The framework leaves its own open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return agent.run_sync("How?")
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def returned(messages):
    """Return the texts of the tools' results."""
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


class TestPydanticAI(AdapterSuite):
    driver = PydanticAIDriver()


# -- what is special to this framework --------------------------------------------------------------------------------

ONE_CALL = ((SuiteCall(),),)
EXPECTED = [
    "offered: get_forecast, get_news, backup_forecast",
    "get_forecast -> weather.example refused the connection",
    "offered: get_forecast, get_news, backup_forecast",
    "get_forecast -> cloudy in Oslo, says the backup",
    "get_news -> no news of Oslo",
    "offered: get_forecast, get_news, backup_forecast",
    "get_forecast -> The tool get_forecast is unavailable (circuit open).",
    "  The rule consecutive_failures opened it.",
    "  Its last error was a broken connection.",
    "answer: I can't say.",
]


def run(
    gear,
    *,
    tools=(),
    turns=ONE_CALL,
    first=(),
    circuit_of=None,
    terminal_after=None,
    script=None,
    given="How?",
    **options,
):
    """Run an agent, and return the result."""
    capability = SwitchgearCapability(gear, circuit_of=circuit_of, terminal_after=terminal_after)
    of_agent = {name: options.pop(name) for name in ("output_type", "toolsets", "retries", "name") if name in options}
    model = (script or Script(turns)).model()
    agent = Agent(model, tools=tools, capabilities=[*first, capability], **of_agent)
    return asyncio.run(agent.run(given, **options))


def fails_with(make):
    """Return a tool that raises what ``make`` returns."""

    def get_forecast(city: str) -> str:
        raise make()

    return get_forecast


def classes(fleet):
    return [event.get("error_class") for event in fleet.events(FORECAST)]


def test_a_tools_own_time_limit_counts_as_a_timeout_at_each_attempt_of_the_model() -> None:
    fleet = InMemoryFleet()
    slow = Tool(SuiteTool(hangs=True).function(), timeout=0.05)
    with pytest.raises(Exception, match="exceeded max retries"):
        run(fleet.gear(), tools=[slow], turns=ONE_CALL * 2, retries=1)
    assert [event["status"] for event in fleet.events(FORECAST)] == ["timeout", "timeout"]


def refused_connection() -> ModelRetry:
    """Return what a tool raises in answer to an outage."""
    error = ModelRetry("try it again")
    error.__cause__ = ConnectionError("refused")
    return error


@pytest.mark.parametrize(
    ("make", "error_class"),
    [
        (lambda: ModelRetry("give a country too"), "invalid_input"),
        (lambda: ModelRetry("HTTP Error 503: Service Unavailable"), "invalid_input"),
        (refused_connection, "transport"),
        (lambda: ToolFailed("no such city"), "tool"),
        (lambda: ToolFailed("HTTP Error 503: Service Unavailable"), "tool"),
    ],
)
def test_retry_that_a_tool_asks_for_counts_as_what_it_reports(make: Any, error_class: str) -> None:
    fleet = InMemoryFleet()
    run(fleet.gear(), tools=[fails_with(make)], retries=2)
    assert classes(fleet) == [error_class]


@pytest.mark.parametrize("make", [ModelRetry, ToolFailed])
def test_text_of_a_failure_counts_if_the_user_trusts_it(make: Any) -> None:
    fleet = InMemoryFleet()
    fails = fails_with(lambda: make("HTTP Error 503: Service Unavailable"))
    run(fleet.gear(outages_in_text=[FORECAST]), tools=[fails], retries=2)
    assert classes(fleet) == ["server"]


def test_refusal_is_a_failed_result_and_leaves_the_retries_alone() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear()
    fleet.open_circuit(FORECAST)
    result = run(gear, tools=[SuiteTool().function()], turns=ONE_CALL * 5, retries=0)
    parts = [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    assert {part.outcome for part in parts} == {"failed"}
    assert len(parts) == 5
    assert result.output == "done"


def test_call_that_waits_for_an_approval_counts_when_it_is_made() -> None:
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=1))
    gear, tool = fleet.gear(), SuiteTool()
    options = {"tools": [Tool(tool.function(), requires_approval=True)], "output_type": [str, DeferredToolRequests]}
    waiting = run(gear, **options)
    (call,) = waiting.output.approvals
    assert fleet.events(FORECAST) == []
    approved = DeferredToolRequests.build_results(waiting.output, approvals={call.tool_call_id: True})
    history = waiting.all_messages()
    finished = run(gear, **options, given=None, message_history=history, deferred_tool_results=approved)
    assert finished.output == "done"
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]


def test_answer_of_another_capability_in_place_of_the_tool_does_not_count() -> None:
    class Answering(AbstractCapability):
        async def before_tool_execute(self, ctx, *, call, tool_def, args):
            raise SkipToolExecution("sunny, as always")

    fleet = InMemoryFleet()
    tool = SuiteTool()
    result = run(fleet.gear(), tools=[tool.function()], first=[Answering()])
    assert returned(result.all_messages()) == ["sunny, as always"]
    assert tool.calls == []
    assert fleet.events(FORECAST) == []


def test_run_that_ends_says_why_in_its_exception() -> None:
    fleet = InMemoryFleet()
    gear, script = fleet.gear(), Script(ONE_CALL * 5)
    fleet.open_circuit(FORECAST)
    with pytest.raises(
        UsageLimitExceeded, match=f"too many tool calls were refused. The tool {FORECAST} is unavailable"
    ):
        run(gear, tools=[SuiteTool().function()], script=script, terminal_after=2)
    assert len(script.seen) == 2


def test_tool_of_a_prefixed_toolset_has_its_own_circuit_and_a_guard_within_it_is_seen() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear(tool_list="hide", hide_after_s=0)
    plain, guarded = SuiteTool(), SuiteTool(NEWS, guard=gear.guard("mcp:news:get"))
    toolset = FunctionToolset([plain.function(), guarded.function()]).prefixed("eu")
    script = Script(((SuiteCall(f"eu_{FORECAST}"), SuiteCall(f"eu_{NEWS}")),))
    run(gear, toolsets=[toolset], circuit_of={f"eu_{FORECAST}": "mcp:weather:eu"}, script=script)
    assert [event["status"] for event in fleet.events("mcp:weather:eu")] == ["success"]
    assert [event["status"] for event in fleet.events("mcp:news:get")] == ["success"]
    assert fleet.events(f"eu_{NEWS}") == []
    fleet.open_circuit("mcp:news:get")
    run(gear, toolsets=[toolset], circuit_of={f"eu_{FORECAST}": "mcp:weather:eu"}, script=script)
    assert [tool.name for tool in script.seen[-1].function_tools] == [f"eu_{FORECAST}"]


def test_events_carry_the_conversation() -> None:
    fleet = InMemoryFleet()
    run(fleet.gear(), tools=[SuiteTool().function()], conversation_id="talk-7")
    assert [event["session_id"] for event in fleet.events(FORECAST)] == ["talk-7"]


@pytest.mark.parametrize("choice", ["required", [FORECAST]])
def test_tool_that_the_model_is_made_to_call_stays_in_the_list(choice: Any) -> None:
    class Demanding(AbstractCapability):
        async def before_model_request(self, ctx, request_context):
            return dataclasses.replace(request_context, model_settings={"tool_choice": choice})

    fleet = InMemoryFleet()
    gear, script = fleet.gear(), Script(())
    fleet.open_circuit(FORECAST)
    run(gear, tools=[SuiteTool().function()], first=[Demanding()], script=script)
    assert [tool.name for tool in script.seen[0].function_tools] == [FORECAST]


def test_tool_that_needs_an_approval_never_stands_in_for_another_one() -> None:
    fleet = InMemoryFleet()
    gear = fleet.gear(fallbacks={FORECAST: BACKUP})
    backup = SuiteTool(BACKUP)
    fleet.open_circuit(FORECAST)
    result = run(gear, tools=[SuiteTool().function(), Tool(backup.function(), requires_approval=True)])
    assert backup.calls == []
    assert f"Use {BACKUP} instead." in returned(result.all_messages())[0]


def test_example_prints_what_it_promises() -> None:
    expect_example("pydantic_ai_agent.py", EXPECTED)


def test_hidden_tool_stays_in_the_list_of_an_openai_model_which_is_allowed_the_others() -> None:
    class OpenAI(FunctionModel):
        @property
        def system(self) -> str:
            return "openai"

    fleet = InMemoryFleet()
    gear, seen = fleet.gear(tool_list="hide", hide_after_s=0), []

    def answer(_messages, info):
        seen.append(([each.name for each in info.function_tools], (info.model_settings or {}).get("tool_choice")))
        return ModelResponse([TextPart("done")])

    agent = Agent(
        OpenAI(answer),
        tools=[SuiteTool().function(), SuiteTool(NEWS).function()],
        capabilities=[SwitchgearCapability(gear)],
    )
    asyncio.run(agent.run("How?"))
    fleet.open_circuit(FORECAST)
    asyncio.run(agent.run("How?"))
    assert seen == [([FORECAST, NEWS], None), ([FORECAST, NEWS], ToolOrOutput([NEWS]))]
