"""The adapter of CrewAI passes the suite."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import warnings
from typing import Any, ClassVar

import pytest

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"  # read when crewai is imported
with warnings.catch_warnings(
    action="ignore"
):  # its packages refuse what the import system does, and are imported all the same
    import crewai  # noqa: F401

from crewai import Agent, BaseLLM, Crew, Task
from crewai.flow.async_feedback import HumanFeedbackPending
from crewai.hooks import HookAborted
from crewai.tools import tool
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.planning_types import TodoItem
from crewai.utilities.step_execution_context import StepExecutionContext

from switchgear.integrations.crewai import guard_crews
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

EXPECTED: list[str] = [
    "run 1",
    "offered: get_climate, get_forecast, get_news",
    "get_news: Error executing tool: news.example did not answer",
    "get_forecast: Error executing tool: weather.example refused the connection",
    "run 2",
    "offered: get_climate, get_forecast, get_news",
    "run 3",
    "offered: get_climate, get_forecast, get_news",
    "get_news: The tool get_news is unavailable (circuit open). The rule consecutive_failures opened it. Its last error was a timeout.",
    "get_forecast: usually mild in Oslo",
    "These tools are unavailable: get_forecast",
]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ONE_CALL = ((SuiteCall(),),)
_FIRST = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)


class ScriptedLLM(BaseLLM):
    """Notes what it is asked, and answers by the script."""

    turns: list[Any]
    run: Any
    as_text: bool = False

    def supports_function_calling(self):
        return not self.as_text

    def call(self, messages, tools=None, from_agent=None, **_options):
        self._invoke_before_llm_call_hooks(messages, from_agent)  # as the framework's own models do
        run = self.run
        run.requests += 1
        run.offered.append({each["function"]["name"] for each in tools or []})
        run.prompts.append("\n".join(each["content"] for each in messages if each["role"] == "system"))
        run.conversation.append(
            "".join(f"\n{each['role']}: {each['content']}" for each in messages if each["role"] != "system")
        )
        role = "assistant" if self.as_text else "tool"
        run.results[:] = [each["content"] for each in messages if each["role"] == role and each["content"]]
        if not self.turns:
            return "Thought: I know.\nFinal Answer: done" if self.as_text else "done"
        calls = self.turns.pop(0)
        if self.as_text:
            (call,) = calls
            return f"Thought: I look.\nAction: {call.tool}\nAction Input: {json.dumps(dict(call.arguments))}"
        return [
            {
                "id": f"call-{run.requests}-{number}",
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(dict(call.arguments))},
            }
            for number, call in enumerate(calls)
        ]


def make_crew(tools, turns, run, *, as_text=False, stream=False, **options):
    """Return a crew of one agent with one task."""
    llm = ScriptedLLM(model="scripted", turns=list(turns), run=run, as_text=as_text)
    agent = Agent(
        role="assistant", goal="Answer.", backstory="Brief.", llm=llm, tools=tools, max_retry_limit=0, max_iter=100
    )
    task = Task(description="How is the weather?", expected_output="An answer.", agent=agent)
    return Crew(agents=[agent], tasks=[task], stream=stream, **options)


def kickoff(crew, run):
    """Run a crew. Its exception goes into ``run``."""
    try:
        found = crew.kickoff()
        if crew.stream:
            for _ in found:
                pass
    except Exception as error:
        run.error = error
    return run


class CrewAIDriver(AdapterDriver):
    framework = "crewai"
    not_possible: ClassVar = {
        "cancellation_does_not_count": "CrewAI runs tools in threads, which a cancellation does not reach",
        "cancellation_after_the_limit_counts_as_a_timeout": "CrewAI runs tools in threads, which a cancellation does not reach",
        "retries_of_the_framework_count_once": "CrewAI repeats a failed call of a text model up to six times, and the number is fixed",
    }

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        run = SuiteRun()
        crew = make_crew([tool(each.function()) for each in tools], turns, run, stream=stream)
        with contextlib.nullcontext() if gear is None else guard_crews(gear, terminal_after=terminal_after):
            return await asyncio.to_thread(kickoff, crew, run)

    def interrupt(self):
        raise HumanFeedbackPending.__new__(HumanFeedbackPending)

    def error_value(self, text):
        return ToolFailure(message=text)


class TestCrewAI(AdapterSuite):
    driver = CrewAIDriver()

    # -- models that write their calls as text ------------------------------------------------------------------------

    @pytest.mark.parametrize("is_async", [True, False])
    def test_attempts_of_a_call_written_as_text_count_once(self, is_async: bool) -> None:
        fleet = InMemoryFleet()
        failing = SuiteTool(does=_breaks, is_async=is_async)
        run = _run(fleet, [failing], [*ONE_CALL, *ONE_CALL], as_text=True)
        assert run.error is None
        assert len(failing.calls) == 12
        counted = [event for event in fleet.events(FORECAST) if event["error_class"] == "transport"]
        assert len(counted) == 2

    @pytest.mark.parametrize("is_async", [True, False])
    def test_model_that_writes_its_calls_as_text_reads_results_refusals_and_fallbacks(self, is_async: bool) -> None:
        fleet = InMemoryFleet()
        gear = fleet.gear(fallbacks={NEWS: BACKUP})
        tools = [SuiteTool(is_async=is_async), SuiteTool(NEWS, is_async=is_async), SuiteTool(BACKUP, is_async=is_async)]
        run = _run(fleet, tools, as_text=True, gear=gear)
        assert "sunny in Oslo" in run.text
        fleet.open_circuit(FORECAST)
        fleet.open_circuit(NEWS)
        run = _run(fleet, tools, [(SuiteCall(),), (SuiteCall(NEWS),)], as_text=True, gear=gear)
        assert f"The tool {FORECAST} is unavailable (circuit forced open)." in run.results[0]
        assert "sunny in Oslo" in run.results[1]
        assert [len(each.calls) for each in tools] == [1, 0, 1]
        assert [event["status"] for event in fleet.events(FORECAST)] == ["success", "rejected"]
        assert f"These tools are unavailable: {FORECAST}, {NEWS} (use {BACKUP} instead). " in run.conversation[-1]

    # -- the framework's own ways -------------------------------------------------------------------------------------

    def test_agent_without_a_crew_is_guarded(self) -> None:
        fleet = InMemoryFleet()
        fleet.open_circuit(FORECAST)
        run, forecast = SuiteRun(), SuiteTool()
        llm = ScriptedLLM(model="scripted", turns=list(ONE_CALL), run=run)
        agent = Agent(role="assistant", goal="Answer.", backstory="Brief.", llm=llm, tools=[tool(forecast.function())])
        with guard_crews(fleet.gear()):
            agent.kickoff("How is the weather?")
        assert forecast.calls == []
        assert "is unavailable (circuit forced open)." in run.text

    def test_tool_that_the_crew_adds_is_guarded(self) -> None:
        fleet = InMemoryFleet()
        delegate = SuiteCall("delegate_work_to_coworker", {"task": "x", "context": "x", "coworker": "other"})
        run = SuiteRun()
        crew = make_crew([], [(delegate,)], run)
        crew.agents[0].allow_delegation = True
        crew.agents.append(Agent(role="other", goal="Help.", backstory="Brief.", llm=crew.agents[0].llm))
        fleet.open_circuit(delegate.tool)
        with guard_crews(fleet.gear()):
            kickoff(crew, run)
        assert f"The tool {delegate.tool} is unavailable (circuit forced open)." in run.text

    @pytest.mark.parametrize("as_text", [True, False])
    def test_tools_of_a_step_of_a_plan_are_guarded(self, as_text: bool) -> None:
        fleet = InMemoryFleet()
        run, forecast = SuiteRun(), SuiteTool(does=_breaks)
        crew = make_crew([tool(forecast.function())], [*ONE_CALL, *ONE_CALL], run, as_text=as_text)
        agent = crew.agents[0]
        agent.create_agent_executor(task=crew.tasks[0])
        steps = agent.agent_executor._ensure_step_executor()
        todo = TodoItem(step_number=1, description="Look at the forecast.")
        with guard_crews(fleet.gear()):
            steps.execute(todo, StepExecutionContext(task_description="Answer.", task_goal="An answer."))
            counted = [event for event in fleet.events(FORECAST) if event["error_class"] == "transport"]
            assert len(counted) == 2
            calls = len(forecast.calls)
            fleet.open_circuit(FORECAST)
            agent.llm.turns[:] = ONE_CALL
            steps.execute(todo, StepExecutionContext(task_description="Answer.", task_goal="An answer."))
        assert len(forecast.calls) == calls
        assert f"These tools are unavailable: {FORECAST}. " in run.conversation[-1]

    def test_cached_results_are_no_calls_and_refusals_are_not_cached(self) -> None:
        fleet = InMemoryFleet()
        gear, run, forecast = fleet.gear(), SuiteRun(), SuiteTool()
        crew = make_crew([tool(forecast.function())], ONE_CALL, run, cache=True)
        fleet.open_circuit(FORECAST)
        with guard_crews(gear):
            kickoff(crew, run)
            fleet.close_circuit(FORECAST)
            crew.agents[0].llm.turns[:] = [*ONE_CALL, *ONE_CALL]
            kickoff(crew, run)
        assert run.results == ["sunny in Oslo", "sunny in Oslo"]
        assert forecast.calls == ["Oslo"]
        assert [event["status"] for event in fleet.events(FORECAST)] == ["rejected", "success"]

    def test_removed_guard_lets_calls_pass_in_later_runs(self) -> None:
        fleet = InMemoryFleet()
        run, forecast = SuiteRun(), SuiteTool()
        crew = make_crew([tool(forecast.function())], ONE_CALL, run)
        fleet.open_circuit(FORECAST)
        with guard_crews(fleet.gear()):
            kickoff(crew, run)
        assert forecast.calls == []
        crew.agents[0].llm.turns[:] = ONE_CALL
        kickoff(crew, run)
        assert forecast.calls == ["Oslo"]
        assert "unavailable" not in run.conversation[-1]

    def test_missing_argument_is_recorded_as_the_callers_error(self) -> None:
        fleet = InMemoryFleet()
        _run(fleet, [SuiteTool()], [(SuiteCall(arguments={"town": "Oslo"}),)])
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == "invalid_input"

    def test_run_that_ends_raises_the_frameworks_abort_and_the_next_one_starts_afresh(self) -> None:
        fleet = InMemoryFleet()
        run, forecast = SuiteRun(), SuiteTool()
        crew = make_crew([tool(forecast.function())], ONE_CALL, run)
        fleet.open_circuit(FORECAST)
        with guard_crews(fleet.gear(), terminal_after=1):
            kickoff(crew, run)
            assert isinstance(run.error, HookAborted)
            assert str(run.error).startswith("The run ends: too many tool calls were refused. The tool get_forecast is")
            fleet.close_circuit(FORECAST)
            run.error = None
            crew.agents[0].llm.turns[:] = ONE_CALL
            kickoff(crew, run)
        assert run.error is None
        assert "sunny in Oslo" in run.text

    def test_example_shows_refusal_and_fallback(self) -> None:
        expect_example("crewai_agent.py", EXPECTED)


def _breaks(_city: str) -> str:
    raise ConnectionError("refused")


def _run(fleet, tools, turns=ONE_CALL, *, gear=None, **options):
    run = SuiteRun()
    crew = make_crew([tool(each.function()) for each in tools], turns, run, **options)
    with guard_crews(gear or fleet.gear()):
        return kickoff(crew, run)
