"""The adapter of LangChain passes the suite."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from switchgear import BreakerPolicy, Switchgear, SwitchgearError
from switchgear.integrations.langchain import SwitchgearMiddleware
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import AdapterDriver, AdapterSuite, SuiteCall, SuiteRun, SuiteTool
from tests.frameworks.examples import expect_example
from tests.skill.run import expect_instrumented

_threads = itertools.count()


class ScriptedModel(GenericFakeChatModel):
    """Notes what it is asked, and answers by the script."""

    seen: Any = None

    def bind_tools(self, tools, **_kwargs):
        self.seen.append({each.name for each in tools})
        return self

    def _generate(self, messages, *args, **kwargs):
        self.seen.append([message.text for message in messages if message.type == "system"])
        self.seen.append(
            "".join(f"\n{message.type}: {message.text}" for message in messages if message.type != "system")
        )
        return super()._generate(messages, *args, **kwargs)


class LangChainDriver(AdapterDriver):
    framework = "langchain"

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        seen = []
        asked = [
            AIMessage(
                "",
                tool_calls=[
                    {"name": call.tool, "args": dict(call.arguments), "id": f"call-{turn}-{number}"}
                    for number, call in enumerate(calls)
                ],
            )
            for turn, calls in enumerate(turns)
        ]
        model = ScriptedModel(messages=iter([*asked, AIMessage("done")]), seen=seen)
        middleware = [] if gear is None else [self.middleware(gear, terminal_after)]
        if retries:  # outermost, so that each attempt comes to the adapter
            retry = ToolRetryMiddleware(max_retries=retries, initial_delay=0, jitter=False, backoff_factor=0)
            middleware.insert(0, retry)
        made = [tool(each.function()) for each in tools]
        for each in made:
            each.handle_tool_error = True
        agent = create_agent(
            model, made, system_prompt="Be brief.", middleware=middleware, checkpointer=InMemorySaver()
        )
        run, messages = SuiteRun(), []
        config = {"configurable": {"thread_id": f"thread-{next(_threads)}"}}
        given = {"messages": [("user", "How is the weather?")]}
        try:
            if not all(each.is_async for each in tools):
                found = await asyncio.to_thread(agent.invoke, given, config)
            elif stream:
                async for found in agent.astream(given, config, stream_mode="values"):
                    messages = found["messages"]
            else:
                found = await agent.ainvoke(given, config)
            messages = found["messages"]
        except Exception as error:
            run.error = error
        run.results = [message.text for message in messages if isinstance(message, ToolMessage)]
        run.offered = [names for names in seen if isinstance(names, set)]
        run.prompts = ["\n".join(texts) for texts in seen if isinstance(texts, list)]
        run.conversation = [text for text in seen if isinstance(text, str)]
        run.requests = len(run.prompts)
        return run

    def middleware(self, gear, terminal_after):
        return SwitchgearMiddleware(gear, terminal_after=terminal_after)

    def interrupt(self):
        return interrupt("Is that right?")

    def error_value(self, text):
        raise ToolException(text)


class PassThrough(AgentMiddleware):
    """Hooks that do nothing: what the framework takes to call any middleware."""

    async def awrap_tool_call(self, request, handler):
        return await handler(request)

    async def awrap_model_call(self, request, handler):
        return await handler(request)


class PassThroughDriver(LangChainDriver):
    def middleware(self, _gear, _terminal_after):
        return PassThrough()


class TestLangChain(AdapterSuite):
    driver = LangChainDriver()


EXPECTED = [
    "run 1",
    "  offered: get_forecast, get_climate",
    "  get_forecast: weather.example refused the connection",
    "run 2",
    "  offered: get_forecast, get_climate",
    "  get_forecast: weather.example refused the connection",
    "run 3",
    "  offered: get_forecast, get_climate",
    "  get_climate: usually mild in Oslo",
    "These tools are unavailable: get_forecast (use get_climate instead). ",
]


def test_example_prints_the_expected_lines():
    expect_example("langchain_agent.py", EXPECTED)


def test_an_agent_stops_calling_a_broken_tool_after_the_skills_steps():
    expect_instrumented("langchain_agent.py", "The tool get_forecast is unavailable (circuit open).")


def test_guard_on_a_tool_object_names_the_adapter():
    with pytest.raises(SwitchgearError, match=r"langchain\.SwitchgearMiddleware"):
        Switchgear.local().guard("forecast")(tool(SuiteTool().function()))


def test_available_sees_a_guard_within_a_tool_object():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), tool_list="hide", hide_after_s=0)
    made = tool(SuiteTool(guard=gear.guard("weather")).function())
    assert gear.available([made]) == [made]
    gear.try_acquire("weather").failure(ConnectionError("down"))
    assert gear.available([made]) == []


def test_retries_outside_and_inside_count_one_failure_each():
    policy = BreakerPolicy(consecutive_failures=2)
    for first in (True, False):
        fleet = InMemoryFleet(policy)
        failing = tool(SuiteTool(does=_refuse, is_async=False).function())
        retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False, backoff_factor=0, on_failure="error")
        middleware = [retry, SwitchgearMiddleware(fleet.gear())]
        asked = AIMessage("", tool_calls=[{"name": "get_forecast", "args": {"city": "Oslo"}, "id": "1"}])
        model = ScriptedModel(messages=iter([asked, AIMessage("done")]), seen=[])
        agent = create_agent(model, [failing], middleware=middleware if first else middleware[::-1])
        with contextlib.suppress(ConnectionError):
            agent.invoke({"messages": [("user", "weather?")]})
        assert [event.get("error_class") for event in fleet.events()] == ["transport"]


def test_a_tool_that_answers_with_commands_failed_if_its_message_is_an_error():
    fleet = InMemoryFleet()

    @tool
    def get_forecast(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Return the weather of a city."""
        message = ToolMessage(f"no forecast for {city}", tool_call_id=tool_call_id, status="error")
        found = Command(update={"messages": [message]})
        return found if city == "Oslo" else [Command(update={}), message]

    for number, city in enumerate(("Oslo", "Rome")):
        asked = AIMessage("", tool_calls=[{"name": "get_forecast", "args": {"city": city}, "id": f"{number}"}])
        model = ScriptedModel(messages=iter([asked, AIMessage("done")]), seen=[])
        agent = create_agent(model, [get_forecast], middleware=[SwitchgearMiddleware(fleet.gear())])
        agent.invoke({"messages": [("user", "weather?")]})
    assert [event.get("error_class") for event in fleet.events()] == ["tool", "tool"]


@pytest.mark.parametrize("is_async", [True, False])
def test_unknown_tools_are_refused_to_a_thread_after_three(is_async):
    fleet = InMemoryFleet()
    turns = [[SuiteCall(name)] for name in ("web", "google", "bing", "lycos")]
    found = asyncio.run(LangChainDriver().run(fleet.gear(), [SuiteTool(is_async=is_async)], turns))
    assert "not a valid tool" in found.results[2]
    assert found.results[3].startswith("Your last 3 calls of tools that don't exist were rejected")
    assert fleet.events() == []


@pytest.mark.parametrize("is_async", [True, False])
def test_bad_calls_of_a_thread_are_refused_after_three_and_those_of_another_are_not(is_async):
    fleet = InMemoryFleet()
    driver, gear = LangChainDriver(), fleet.gear()

    def rejects(_city: str) -> Any:
        raise ToolException("no such city")

    turns = [[SuiteCall(arguments={"city": city})] for city in "abcd"]
    for _ in range(2):
        found = asyncio.run(driver.run(gear, [SuiteTool(does=rejects, is_async=is_async)], turns))
        assert found.results[:3] == ["no such city"] * 3
        assert found.results[3].startswith('Your last 3 calls of get_forecast were rejected: "no such city"')


def test_tool_node_of_a_graph_of_ones_own_is_guarded():
    fleet = InMemoryFleet()
    middleware = SwitchgearMiddleware(fleet.gear())
    forecast = tool(SuiteTool(is_async=False).function())
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([forecast], wrap_tool_call=middleware.wrap_tool_call))
    graph.add_edge(START, "tools")
    asked = AIMessage("", tool_calls=[{"name": "get_forecast", "args": {"city": "Oslo"}, "id": "1"}])
    graph = graph.compile()
    assert graph.invoke({"messages": [asked]})["messages"][-1].text == "sunny in Oslo"
    fleet.open_circuit("get_forecast")
    refusal = graph.invoke({"messages": [asked]})["messages"][-1]
    assert (refusal.status, refusal.artifact["code"]) == ("error", "circuit_open")
    assert [event["status"] for event in fleet.events()] == ["success", "rejected"]


def _refuse(_city):
    raise ConnectionError("refused")
