"""Tests that every adapter of an agent framework passes. Run them for an adapter of your own.

Write a driver, which runs an agent of the framework with a scripted model, and derive a test class from the suite:

    class TestMyFramework(AdapterSuite):
        driver = MyDriver()

pytest runs each test of the suite with the real framework, without a network and without keys.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from switchgear.guard.rejections import CircuitOpenError, Rejection
from switchgear.testing.fleet import InMemoryFleet
from switchgear_schemas import BreakerPolicy

if TYPE_CHECKING:
    from switchgear.client import Switchgear

FORECAST: Final = "get_forecast"
BACKUP: Final = "backup_forecast"
NEWS: Final = "get_news"
LIMIT_S: Final = 60.0
"""The longest duration of one test, in seconds."""
_COUNTED: Final = frozenset({"transport", "timeout", "server", "rate_limited", "unknown"})
_OUTAGE: Final = "HTTP Error 503: Service Unavailable"
_QUICK: Final = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=30)
_FIRST: Final = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)


@dataclass(slots=True)
class SuiteTool:
    """A tool with one argument, ``city``. The driver makes a tool of the framework from it, which calls :meth:`call`.

    Attributes:
        name: Its name for the model.
        does: What it does with the city. Its result is the answer.
        calls: The cities that it was called with.
        is_async: Make a coroutine function of it if the framework allows both.
        hangs: Never answer: the driver awaits :meth:`acall`, which the test cancels.
        guard: Decorate the innermost function with this, below what the framework puts around it.
    """

    name: str = FORECAST
    does: Callable[[str], Any] = "sunny in {}".format
    calls: list[str] = field(default_factory=list)
    is_async: bool = True
    hangs: bool = False
    guard: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def call(self, city: str) -> Any:
        """Do what the tool does."""
        self.calls.append(city)
        return self.does(city)

    async def acall(self, city: str) -> Any:
        """:meth:`call`, or hang."""
        if self.hangs:
            self.calls.append(city)
            self.started.set()
            await asyncio.sleep(LIMIT_S)
        return self.call(city)

    def function(self) -> Callable[..., Any]:
        """Return the function for the framework's tool: ``city`` as text in, text out."""
        if self.is_async:

            async def afunction(city: str) -> str:
                """Return the weather of a city."""
                found: str = await self.acall(city)
                return found

            afunction.__name__ = afunction.__qualname__ = self.name
            return afunction if self.guard is None else self.guard(afunction)

        def function(city: str) -> str:
            """Return the weather of a city."""
            found: str = self.call(city)
            return found

        function.__name__ = function.__qualname__ = self.name
        return function if self.guard is None else self.guard(function)


@dataclass(frozen=True, slots=True)
class SuiteCall:
    """A call that the scripted model asks for."""

    tool: str = FORECAST
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"city": "Oslo"})


@dataclass(slots=True)
class SuiteRun:
    """What happened in a run, as the model saw it.

    Attributes:
        results: The texts of the tools' results, in the order of the calls.
        offered: The names of the tools that the model was offered, one set per request.
        prompts: The system prompts, one text per request.
        conversation: What users, tools and the model said before each request, one text per request.
        requests: How often the model was asked.
        error: The exception that ended the run, or None.
    """

    results: list[str] = field(default_factory=list)
    offered: list[set[str]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    conversation: list[str] = field(default_factory=list)
    requests: int = 0
    error: BaseException | None = None

    @property
    def text(self) -> str:
        """All results, and the message of the exception."""
        return "\n".join([*self.results, "" if self.error is None else str(self.error)])


class AdapterDriver(ABC):
    """Runs agents of one framework behind its adapter.

    Attributes:
        framework: Its name, as its package is called.
        not_possible: Names of tests (without ``test_``) that the framework has no means for, and why. The suite skips them
            with the reason.
        swaps: The adapter can call another tool in place of the one that was asked for.
    """

    framework: ClassVar[str]
    not_possible: ClassVar[Mapping[str, str]] = {}
    swaps: ClassVar[bool] = True

    @abstractmethod
    async def run(
        self,
        gear: Switchgear | None,
        tools: Sequence[SuiteTool],
        turns: Sequence[Sequence[SuiteCall]],
        *,
        stream: bool = False,
        terminal_after: int | None = None,
        retries: int = 0,
    ) -> SuiteRun:
        """Run an agent whose model asks for the calls of each turn, then answers "done".

        Exceptions of the run go into ``SuiteRun.error``, except ``asyncio.CancelledError``, which passes through.

        Args:
            gear: The client for the adapter. None: run without the adapter, to measure what it adds.
            tools: The agent's tools.
            turns: The calls that the model asks for, turn by turn. Several calls of a turn are made in parallel.
            stream: Run the agent in the framework's streaming mode.
            terminal_after: The adapter's option.
            retries: Let the framework's own means retry a failed call that often, without a pause.
        """

    @abstractmethod
    def interrupt(self) -> Any:
        """Pause the run from within a tool by the framework's own means: raise its exception, or return its value."""

    def error_value(self, text: str) -> Any:
        """Fail from within a tool by the framework's own means for errors that the model reads: return or raise it."""
        raise RuntimeError(text)


def _fails(error: BaseException) -> Callable[[str], Any]:
    def fail(_city: str) -> Any:
        raise error

    return fail


class AdapterSuite:
    """The tests. Each makes a fleet in memory with one client, and looks at the fleet's events and circuits afterwards."""

    driver: ClassVar[AdapterDriver]

    @pytest.fixture(autouse=True)
    def _possible(self, request: pytest.FixtureRequest) -> None:
        why = self.driver.not_possible.get(request.node.originalname.removeprefix("test_"))
        if why is not None:
            pytest.skip(f"not possible: {why}")

    def run(
        self,
        gear: Switchgear,
        tools: Sequence[SuiteTool],
        turns: Sequence[Sequence[SuiteCall]] = ((SuiteCall(),),),
        **options: Any,
    ) -> SuiteRun:
        """Run an agent within the time limit."""

        async def limited() -> SuiteRun:
            async with asyncio.timeout(LIMIT_S):
                return await self.driver.run(gear, tools, turns, **options)

        return asyncio.run(limited())

    def _answers(self, text: str) -> SuiteTool:
        """Return a tool that answers with an error as a value."""
        return SuiteTool(does=lambda _city: self.driver.error_value(text))

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def test_success_is_counted_with_its_duration(self) -> None:
        fleet = InMemoryFleet()

        def answer(city: str) -> str:
            fleet.clock.advance(2)
            return f"sunny in {city}"

        tool = SuiteTool(does=answer)
        found = self.run(fleet.gear(), [tool])
        assert found.error is None
        assert tool.calls == ["Oslo"]
        assert "sunny in Oslo" in found.text
        (event,) = fleet.events(FORECAST)
        assert (event["status"], event["execution_time_ms"]) == ("success", 2000)

    def test_exceptions_count_and_open_the_circuit(self) -> None:
        fleet = InMemoryFleet(_QUICK)
        gear, tool = fleet.gear(local_policies=_QUICK), SuiteTool(does=_fails(ConnectionError("refused")))
        for _ in range(3):
            self.run(gear, [tool])
        assert len(tool.calls) == 2
        assert fleet.state(FORECAST) == "open"
        classes = [event.get("error_class") for event in fleet.events(FORECAST) if event["status"] != "rejected"]
        assert classes == ["transport", "transport"]

    def test_error_as_a_value_counts_as_the_tools_error(self) -> None:
        for text in ("no such city", _OUTAGE):
            fleet = InMemoryFleet(_FIRST)
            self.run(fleet.gear(local_policies=_FIRST), [self._answers(text)])
            (event,) = fleet.events(FORECAST)
            assert event["error_class"] in {"tool", "invalid_input"}
            assert fleet.state(FORECAST) == "closed"

    def test_error_as_a_value_counts_by_its_text_if_the_user_trusts_it(self) -> None:
        fleet = InMemoryFleet()
        self.run(fleet.gear(outages_in_text=[FORECAST]), [self._answers(_OUTAGE)])
        (event,) = fleet.events(FORECAST)
        assert event["error_class"] == "server"

    def test_timeout_counts_as_a_timeout(self) -> None:
        fleet = InMemoryFleet()
        self.run(fleet.gear(), [SuiteTool(does=_fails(TimeoutError("slow")))])
        (event,) = fleet.events(FORECAST)
        assert (event["status"], event["error_class"]) == ("timeout", "timeout")

    def test_cancellation_does_not_count(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear = fleet.gear(local_policies=_FIRST)
        self._cancel_after(4, fleet, gear)
        assert not _counted(fleet)
        assert not gear.is_open(FORECAST)

    def test_cancellation_after_the_limit_counts_as_a_timeout(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear = fleet.gear(local_policies=_FIRST)
        self._cancel_after(6, fleet, gear)
        assert [event["error_class"] for event in fleet.events(FORECAST)] == ["timeout"]
        assert gear.is_open(FORECAST)

    def _cancel_after(self, seconds: float, fleet: InMemoryFleet, gear: Switchgear) -> None:
        """Cancel a run while its tool hangs, ``seconds`` after the call began."""
        tool = SuiteTool(hangs=True)

        async def cancel() -> None:
            task = asyncio.ensure_future(self.driver.run(gear, [tool], ((SuiteCall(),),)))
            async with asyncio.timeout(LIMIT_S):
                await tool.started.wait()
            fleet.clock.advance(seconds)
            task.cancel()
            await asyncio.wait([task], timeout=LIMIT_S)

        tool.started = asyncio.Event()
        asyncio.run(cancel())
        assert tool.calls == ["Oslo"]

    def test_interrupt_or_deferral_does_not_count(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear, tool = fleet.gear(local_policies=_FIRST), SuiteTool(does=lambda _: self.driver.interrupt())
        self.run(gear, [tool])
        assert tool.calls == ["Oslo"]
        assert not gear.is_open(FORECAST)
        assert [event for event in fleet.events(FORECAST) if event.get("error_class") != "policy"] == []

    def test_unknown_tool_makes_no_circuit(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear = fleet.gear(local_policies=_FIRST)
        self.run(gear, [SuiteTool()], ((SuiteCall("no_such_tool"),),))
        assert fleet.events("no_such_tool") == []
        assert not _counted(fleet)

    def test_bad_arguments_are_the_callers_error(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear, tool = fleet.gear(local_policies=_FIRST), SuiteTool()
        self.run(gear, [tool], ((SuiteCall(arguments={"wrong": 1}),),))
        assert tool.calls == []
        assert not _counted(fleet)
        assert not gear.is_open(FORECAST)
        assert all(event["error_class"] in {"invalid_input", "tool"} for event in fleet.events(FORECAST))

    def test_refusal_of_another_guard_within_the_tool_does_not_count(self) -> None:
        fleet = InMemoryFleet(_FIRST)
        gear = fleet.gear(local_policies=_FIRST)
        inner = CircuitOpenError(Rejection("database", "open", "fleet", last_error="[Errno 111] Connection refused"))
        self.run(gear, [SuiteTool(does=_fails(inner))])
        assert not _counted(fleet)
        assert not gear.is_open(FORECAST)

    # -- refusals -----------------------------------------------------------------------------------------------------

    def test_refusal_text_reaches_the_model_and_the_tool_is_not_called(self) -> None:
        fleet = InMemoryFleet()
        gear, tool = fleet.gear(), SuiteTool()
        fleet.open_circuit(FORECAST)
        found = self.run(gear, [tool, SuiteTool(NEWS)])
        assert tool.calls == []
        assert f"The tool {FORECAST} is unavailable (circuit forced open)." in "\n".join(found.results)
        assert [event["status"] for event in fleet.events(FORECAST)] == ["rejected"]
        assert found.error is None

    def test_list_stays_as_it_is_while_a_tool_is_down(self) -> None:
        fleet = InMemoryFleet()
        gear, tools = fleet.gear(), [SuiteTool(), SuiteTool(NEWS)]
        before = self.run(gear, tools, ()).offered[0]
        fleet.open_circuit(FORECAST)
        fleet.advance(3_600)
        assert self.run(gear, tools, ()).offered[0] == before
        assert before >= {FORECAST, NEWS}
        assert gear.status().tool_list_changes == 0

    def test_hidden_tools_are_left_out_of_the_list(self) -> None:
        fleet = InMemoryFleet()
        gear, tools = fleet.gear(tool_list="hide", hide_after_s=0), [SuiteTool(), SuiteTool(NEWS)]
        assert self.run(gear, tools, ()).offered[0] >= {FORECAST, NEWS}
        fleet.open_circuit(FORECAST)
        offered = self.run(gear, tools, ()).offered[0]
        assert NEWS in offered
        assert FORECAST not in offered
        fleet.close_circuit(FORECAST)
        assert self.run(gear, tools, ()).offered[0] >= {FORECAST, NEWS}

    def test_outage_is_told_once_in_the_conversation_and_so_is_its_end(self) -> None:
        fleet = InMemoryFleet()

        def ends_the_outage(_city: str) -> str:
            fleet.close_circuit(FORECAST)
            fleet.advance(61)
            return "no news"

        news = SuiteTool(NEWS)
        gear, turn = fleet.gear(), (SuiteCall(NEWS),)
        quiet = self.run(gear, [SuiteTool(), news], (turn, turn))
        assert "unavailable" not in "".join(quiet.conversation)
        fleet.open_circuit(FORECAST)
        fleet.open_circuit("a_tool_of_another_agent")
        fleet.advance(61)
        news.does = ends_the_outage
        found = self.run(gear, [SuiteTool(), news], (turn, turn, turn))
        assert set(found.prompts) == set(quiet.prompts)
        said, ended = f"These tools are unavailable: {FORECAST}. ", f"These tools may be called again: {FORECAST}."
        assert [text.count(said) for text in found.conversation] == [1] * found.requests
        assert found.conversation[-1].count(ended) == 1
        assert "a_tool_of_another_agent" not in found.conversation[-1]
        for earlier, later in itertools.pairwise(found.conversation):
            assert later.startswith(earlier), "what a provider has read stays as it is"

    def test_fallback_runs_or_is_named(self) -> None:
        fleet = InMemoryFleet()
        gear = fleet.gear(fallbacks={FORECAST: BACKUP})
        tool, backup = SuiteTool(), SuiteTool(BACKUP, "cloudy in {}, says the backup".format)
        fleet.open_circuit(FORECAST)
        found = self.run(gear, [tool, backup])
        assert tool.calls == []
        (refusal,) = fleet.events(FORECAST)
        if self.driver.swaps:
            assert backup.calls == ["Oslo"]
            assert "cloudy in Oslo, says the backup" in found.text
            assert (refusal["served_by"], refusal["fallback_tool"]) == ("fallback", BACKUP)
            assert [event["status"] for event in fleet.events(BACKUP)] == ["success"]
        else:
            assert f"Use {BACKUP} instead." in found.text
            assert backup.calls == []

    def test_terminal_refusal_ends_the_run(self) -> None:
        fleet = InMemoryFleet()
        gear, tool = fleet.gear(), SuiteTool()
        fleet.open_circuit(FORECAST)
        turns = [(SuiteCall(arguments={"city": f"Oslo {number}"}),) for number in range(8)]
        endless = self.run(gear, [tool, SuiteTool(NEWS)], turns)
        assert endless.requests == 9
        ended = self.run(gear, [tool, SuiteTool(NEWS)], turns, terminal_after=3)
        assert tool.calls == []
        assert ended.requests <= 4
        assert len([event for event in fleet.events(FORECAST) if event["status"] == "rejected"]) <= 8 + 3

    # -- probes -------------------------------------------------------------------------------------------------------

    def test_probe_is_leased_and_its_success_closes_the_circuit(self) -> None:
        fleet = InMemoryFleet(_QUICK)
        gear, tool = fleet.gear(local_policies=_QUICK), SuiteTool(does=_fails(ConnectionError("refused")))
        for _ in range(2):
            self.run(gear, [tool])
        assert fleet.state(FORECAST) == "open"
        fleet.advance(31)
        tool.does = "sunny in {}".format
        found = self.run(gear, [tool])
        assert "sunny in Oslo" in found.text
        assert fleet.state(FORECAST) == "closed"
        assert fleet.events(FORECAST)[-1].get("lease_id")

    def test_probe_of_an_interrupted_call_is_released(self) -> None:
        fleet = InMemoryFleet(_QUICK)
        gear, tool = fleet.gear(local_policies=_QUICK), SuiteTool(does=_fails(ConnectionError("refused")))
        for _ in range(2):
            self.run(gear, [tool])
        fleet.advance(31)
        tool.does = lambda _: self.driver.interrupt()
        self.run(gear, [tool])
        assert len(tool.calls) == 3
        tool.does = "sunny in {}".format
        found = self.run(gear, [tool])
        assert "sunny in Oslo" in found.text
        assert fleet.state(FORECAST) == "closed"

    # -- ways of running ----------------------------------------------------------------------------------------------

    def test_streaming_counts_each_call_once(self) -> None:
        fleet = InMemoryFleet()
        tool = SuiteTool()
        found = self.run(fleet.gear(), [tool], stream=True)
        assert found.error is None
        assert tool.calls == ["Oslo"]
        assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]

    def test_parallel_calls_are_counted_apart(self) -> None:
        fleet = InMemoryFleet()
        tool, news = SuiteTool(), SuiteTool(NEWS, "no news of {}".format)
        calls = (SuiteCall(), SuiteCall(NEWS), SuiteCall(arguments={"city": "Bergen"}))
        found = self.run(fleet.gear(), [tool, news], (calls,))
        assert sorted(tool.calls) == ["Bergen", "Oslo"]
        assert "no news of Oslo" in found.text
        assert [event["status"] for event in fleet.events(FORECAST)] == ["success", "success"]
        assert [event["status"] for event in fleet.events(NEWS)] == ["success"]

    def test_synchronous_tools_are_guarded_too(self) -> None:
        fleet = InMemoryFleet()
        gear, tool = fleet.gear(), SuiteTool(is_async=False)
        found = self.run(gear, [tool, SuiteTool(NEWS)])
        assert "sunny in Oslo" in found.text
        fleet.open_circuit(FORECAST)
        self.run(gear, [tool, SuiteTool(NEWS)])
        assert tool.calls == ["Oslo"]
        assert [event["status"] for event in fleet.events(FORECAST)] == ["success", "rejected"]

    def test_session_limits_hold_and_events_carry_the_session(self) -> None:
        fleet = InMemoryFleet()
        gear, tool = fleet.gear(), SuiteTool()
        with gear.session("s-1", max_calls=1):
            found = self.run(gear, [tool], ((SuiteCall(),), (SuiteCall(),)))
        assert tool.calls == ["Oslo"]
        assert "Do not call any tool again in this session" in found.text
        assert {event["session_id"] for event in fleet.events(FORECAST)} == {"s-1"}

    def test_guarded_function_is_counted_once_and_its_circuit_filters(self) -> None:
        fleet = InMemoryFleet()
        gear = fleet.gear(tool_list="hide", hide_after_s=0)
        tool = SuiteTool(guard=gear.guard("weather"))
        self.run(gear, [tool, SuiteTool(NEWS)])
        assert [event["status"] for event in fleet.events("weather")] == ["success"]
        assert fleet.events(FORECAST) == []
        fleet.open_circuit("weather")
        found = self.run(gear, [tool, SuiteTool(NEWS)])
        assert tool.calls == ["Oslo"]
        assert "is unavailable (circuit forced open)." in "\n".join(found.results)
        assert FORECAST not in found.offered[0]

    def test_retries_of_the_framework_count_once(self) -> None:
        fleet = InMemoryFleet()
        tool = SuiteTool(does=_fails(ConnectionError("refused")))
        self.run(fleet.gear(), [tool], retries=2)
        assert len(tool.calls) == 3
        assert len(_counted(fleet)) == 1


def _counted(fleet: InMemoryFleet) -> list[dict[str, Any]]:
    """Return the events that count as failures."""
    return [event for event in fleet.events() if event.get("error_class") in _COUNTED]
