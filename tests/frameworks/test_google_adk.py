"""The plugin for Google ADK passes the suite."""

from __future__ import annotations

import asyncio
import contextvars
import json
from typing import Any, ClassVar

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types

from switchgear import GuardOptions
from switchgear.classify.tool_failure import META_KEY
from switchgear.integrations.google_adk import SwitchgearPlugin
from switchgear.testing.adapter_suite import (
    BACKUP,
    FORECAST,
    AdapterDriver,
    AdapterSuite,
    SuiteCall,
    SuiteRun,
    SuiteTool,
)
from switchgear.testing.fleet import InMemoryFleet
from switchgear_schemas import BreakerPolicy
from tests.frameworks.examples import expect_example
from tests.support.limits import HAPPEN_S

EXPECTED: list[str] = [
    "run 1",
    "offered: get_climate, get_forecast, get_news",
    "get_news: {'error': 'HTTP Error 503: Service Unavailable (Oslo)'}",
    "the run failed: weather.example refused the connection",
    "run 2",
    "the run failed",
    "run 3",
    "offered: get_climate, get_forecast, get_news",
    "get_news: {'error': 'The tool get_news is unavailable (circuit open).",
    "get_forecast: {'climate': 'usually mild in Oslo'}",
    "These tools are unavailable: get_forecast",
]

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
_context: contextvars.ContextVar[ToolContext] = contextvars.ContextVar("tool_context")
ONE_CALL = ((SuiteCall(),),)
_FIRST = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)


class ScriptedModel(BaseLlm):
    """Notes what it is asked, and answers by the script."""

    turns: list[Any]
    run: Any

    async def generate_content_async(self, llm_request, stream=False):
        tools = llm_request.config.tools or []
        self.run.offered.append({each.name for tool in tools for each in tool.function_declarations or []})
        self.run.prompts.append(llm_request.config.system_instruction or "")
        parts = [part for content in llm_request.contents for part in content.parts]
        self.run.conversation.append(
            "".join(f"\n{part.text or part.function_call or part.function_response}" for part in parts)
        )
        self.run.requests += 1
        if not self.turns:
            yield _said(types.Part(text="done"))
            return
        calls = self.turns.pop(0)
        if stream:
            yield _said(types.Part(text="Let me see."), partial=True)
        yield _said(*(types.Part.from_function_call(name=call.tool, args=dict(call.arguments)) for call in calls))


def _said(*parts, partial=False):
    return LlmResponse(content=types.Content(role="model", parts=list(parts)), partial=partial)


def _tool(tool: SuiteTool, **options: Any) -> FunctionTool:
    found = FunctionTool(tool.function(), **options)
    run_async = found.run_async

    async def noting_the_context(*, args, tool_context):
        _context.set(tool_context)
        return await run_async(args=args, tool_context=tool_context)

    found.run_async = noting_the_context
    return found


async def run_agent(tools, turns, plugins, *, stream=False, sub_agents=()):
    """Run an agent. Return what happened, and the events."""
    run, events = SuiteRun(), []
    model = ScriptedModel(model="scripted", turns=list(turns), run=run)
    agent = LlmAgent(name="assistant", model=model, instruction="Be brief.", tools=tools, sub_agents=list(sub_agents))
    runner = InMemoryRunner(app=App(name="tests", root_agent=agent, plugins=plugins))
    session = await runner.session_service.create_session(app_name="tests", user_id="ana")
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    question = types.UserContent("How is the weather?")
    try:
        async for event in runner.run_async(
            user_id="ana", session_id=session.id, new_message=question, run_config=config
        ):
            events.append(event)  # noqa: PERF401 - those before an exception are kept
    except Exception as error:
        run.error = error
    run.results = [json.dumps(each.response) for event in events for each in event.get_function_responses()]
    return run, events


class GoogleAdkDriver(AdapterDriver):
    framework = "google-adk"
    not_possible: ClassVar = {
        "retries_of_the_framework_count_once": "ADK repeats no call; its retry plugin asks the model to make a new one"
    }

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        plugins = [] if gear is None else [SwitchgearPlugin(gear, terminal_after=terminal_after)]
        run, _ = await run_agent([_tool(each) for each in tools], turns, plugins, stream=stream)
        return run

    def interrupt(self):
        _context.get().request_confirmation(hint="Is that right?")
        return {"status": "pending"}

    def error_value(self, text):
        return {"error": text}


class TestGoogleAdk(AdapterSuite):
    driver = GoogleAdkDriver()

    # -- tools that wait ----------------------------------------------------------------------------------------------

    def test_tool_that_waits_for_approval_does_not_count(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        tool = SuiteTool()
        run, events = _run(fleet, [_tool(tool, require_confirmation=True)])
        assert run.error is None
        assert any(event.actions.requested_tool_confirmations for event in events)
        assert tool.calls == []
        assert fleet.events(FORECAST) == []

    def test_ticket_of_a_long_running_tool_counts_and_a_pending_one_does_not(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        tickets = [None, {"ticket": "t-1"}]

        def get_forecast(city: str) -> dict | None:
            """Return the weather of a city, later."""
            return tickets.pop(0)

        for _ in range(2):
            _run(fleet, [LongRunningFunctionTool(get_forecast)])
        pending, counted = fleet.events(FORECAST)
        assert pending["error_class"] == "policy"
        assert (counted["status"], counted.get("error_class")) == ("success", None)

    def test_tool_that_needs_approval_is_named_and_not_called_in_place_of_another(self) -> None:
        fleet = InMemoryFleet()
        gear = fleet.gear(fallbacks={FORECAST: BACKUP})
        backup = SuiteTool(BACKUP)
        fleet.open_circuit(FORECAST)
        run, _ = _run(fleet, [_tool(SuiteTool()), _tool(backup, require_confirmation=True)], gear=gear)
        assert backup.calls == []
        assert f"Use {BACKUP} instead." in run.text

    # -- failures -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("ours_first", [True, False])
    @pytest.mark.parametrize(
        ("error", "counted"), [(ConnectionError("refused"), "transport"), (KeyError("city"), "unknown")]
    )
    def test_exception_counts_wherever_the_retry_plugin_is(self, ours_first, error, counted) -> None:
        fleet = InMemoryFleet(_FIRST)

        def fail(_city: str) -> str:
            raise error

        gear, tool = fleet.gear(local_policies=_FIRST), SuiteTool(does=fail)
        plugins = [SwitchgearPlugin(gear), ReflectAndRetryToolPlugin(max_retries=2)]
        run, _ = _run(fleet, [_tool(tool)], [(SuiteCall(),)] * 2, plugins=plugins if ours_first else plugins[::-1])
        assert run.error is None
        assert tool.calls == ["Oslo"]
        failed, refused = fleet.events(FORECAST)
        assert failed["error_class"] == counted
        assert refused["status"] == "rejected"

    def test_call_whose_end_another_plugin_hides_is_ignored(self) -> None:
        class Reworded(BasePlugin):
            async def after_tool_callback(self, **_call):
                return {"result": "it is sunny"}

        fleet = InMemoryFleet()
        run, _ = _run(fleet, [_tool(SuiteTool())], plugins=[Reworded("reworded"), SwitchgearPlugin(fleet.gear())])
        assert "it is sunny" in run.text
        assert [event["error_class"] for event in fleet.events(FORECAST)] == ["policy"]

    @pytest.mark.parametrize(("globs", "found"), [((), "tool"), ((FORECAST,), "server")])
    def test_error_message_in_the_tutorials_form_counts_as_an_outage_if_the_user_trusts_it(self, globs, found) -> None:
        fleet = InMemoryFleet()
        answer = {"status": "error", "error_message": "HTTP Error 503: Service Unavailable"}
        _run(fleet, [_tool(SuiteTool(does=lambda _: answer))], gear=fleet.gear(outages_in_text=globs))
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == found

    @pytest.mark.parametrize(
        ("kind", "error", "found"),
        [
            ("McpTool", "MCP tool execution failed: Connection closed", "transport"),
            ("McpTool", "Unexpected error during MCP tool execution: Failed to create MCP session: x", "transport"),
            ("McpTool", "Connection closed", "tool"),
            ("McpTool", "MCP tool execution failed: the page says: Connection closed", "tool"),
            ("FunctionTool", "MCP tool execution failed: Connection closed", "tool"),
        ],
    )
    def test_words_of_the_framework_for_a_server_that_died_count_for_its_mcp_tools_alone(
        self, kind, error, found
    ) -> None:
        fleet = InMemoryFleet()
        tool = _tool(SuiteTool(does=lambda _: {"error": error}))
        tool.__class__ = type(kind, (FunctionTool,), {})
        _run(fleet, [tool])
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == found

    def test_missing_argument_is_recorded_as_the_callers_error(self) -> None:
        fleet = InMemoryFleet()
        _run(fleet, [_tool(SuiteTool())], [(SuiteCall(arguments={"town": "Oslo"}),)])
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == "invalid_input"

    def test_classify_result_of_the_client_decides_about_error_values(self) -> None:
        fleet = InMemoryFleet()
        gear = fleet.gear(
            defaults=GuardOptions(classify_result=lambda result: "rate_limited" if "error" in result else None)
        )
        _run(fleet, [_tool(SuiteTool(does=lambda _: {"error": "slow down"}))], gear=gear)
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == "rate_limited"

    def test_fallback_that_raises_counts_and_the_model_reads_why(self) -> None:
        fleet = InMemoryFleet()
        gear = fleet.gear(fallbacks={FORECAST: BACKUP})
        fleet.open_circuit(FORECAST)
        run, _ = _run(fleet, [_tool(SuiteTool()), _tool(SuiteTool(BACKUP, _breaks))], gear=gear)
        assert run.error is None
        assert f"{BACKUP} failed: refused" in run.text
        assert [event["error_class"] for event in fleet.events(BACKUP)] == ["transport"]

    def test_call_that_is_cancelled_because_a_parallel_one_failed_does_not_count(self) -> None:
        fleet = InMemoryFleet()
        slow = SuiteTool(hangs=True)

        async def backup_forecast(city: str) -> str:
            """Fail when the other call has begun."""
            await asyncio.wait_for(slow.started.wait(), HAPPEN_S)
            raise ConnectionError("refused")

        run, _ = _run(fleet, [_tool(slow), backup_forecast], [(SuiteCall(), SuiteCall(BACKUP))])
        assert isinstance(run.error, ConnectionError)
        assert slow.calls == ["Oslo"]
        assert [event["error_class"] for event in fleet.events(BACKUP)] == ["transport"]
        assert [event["error_class"] for event in fleet.events(FORECAST)] == ["cancelled"]

    def test_probe_of_a_cancelled_call_is_given_back(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear, tool = fleet.gear(local_policies=_FIRST), SuiteTool(does=_breaks)
        _run(fleet, [_tool(tool)], gear=gear)
        assert fleet.state(FORECAST) == "open"
        fleet.advance(31)
        hung = SuiteTool(hangs=True)

        async def cancel() -> None:
            run = asyncio.ensure_future(run_agent([_tool(hung)], [(SuiteCall(),)], [SwitchgearPlugin(gear)]))
            await asyncio.wait_for(hung.started.wait(), HAPPEN_S)
            run.cancel()
            await asyncio.wait([run], timeout=HAPPEN_S)

        hung.started = asyncio.Event()
        asyncio.run(cancel())
        tool.does = "sunny in {}".format
        run, _ = _run(fleet, [_tool(tool)], gear=gear)
        assert "sunny in Oslo" in run.text
        assert fleet.state(FORECAST) == "closed"

    # -- refusals and runs --------------------------------------------------------------------------------------------

    def test_refusal_is_in_the_events_metadata_as_data(self) -> None:
        fleet = InMemoryFleet()
        fleet.open_circuit(FORECAST)
        calls = (SuiteCall(), SuiteCall(BACKUP))
        _, events = _run(fleet, [_tool(SuiteTool()), _tool(SuiteTool(BACKUP))], [calls])
        (event,) = [event for event in events if event.get_function_responses()]
        refused = next(each for each in event.get_function_responses() if each.name == FORECAST)
        assert refused.response.keys() == {"error"}
        assert event.custom_metadata[META_KEY].keys() == {refused.id}
        assert event.custom_metadata[META_KEY][refused.id]["code"] == "circuit_open"

    def test_handover_to_another_agent_makes_no_circuit(self) -> None:
        fleet = InMemoryFleet()
        there = SuiteRun()
        model = ScriptedModel(model="scripted", turns=[(SuiteCall(),)], run=there)
        tool = SuiteTool()
        other = LlmAgent(name="forecaster", description="Knows the weather.", model=model, tools=[_tool(tool)])
        handover = SuiteCall("transfer_to_agent", {"agent_name": "forecaster"})
        run, _ = _run(fleet, [], [(handover,)], sub_agents=[other])
        assert run.error is None
        assert tool.calls == ["Oslo"]
        assert {event["tool_name"] for event in fleet.events()} == {FORECAST}

    def test_run_that_ends_says_why_and_is_forgotten(self) -> None:
        fleet = InMemoryFleet()
        fleet.open_circuit(FORECAST)
        plugin = SwitchgearPlugin(fleet.gear(), terminal_after=1)
        _, events = _run(fleet, [_tool(SuiteTool())], [(SuiteCall(),)] * 3, plugins=[plugin])
        assert events[-1].content.parts[0].text.startswith("The run ends: too many tool calls were refused. The tool")
        run, _ = _run(fleet, [_tool(SuiteTool(BACKUP))], [(SuiteCall(BACKUP),)], plugins=[plugin])
        assert run.requests == 2

    def test_example_shows_refusal_and_fallback(self) -> None:
        expect_example("google_adk_agent.py", EXPECTED)


def _breaks(_city: str) -> str:
    raise ConnectionError("refused")


def _run(fleet, tools, turns=ONE_CALL, *, gear=None, plugins=None, sub_agents=()):
    plugins = plugins or [SwitchgearPlugin(gear or fleet.gear())]
    return asyncio.run(run_agent(tools, turns, plugins, sub_agents=sub_agents))
