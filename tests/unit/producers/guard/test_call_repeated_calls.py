"""Which calls count as repeated: those that gave their caller something."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from switchgear import (
    BreakerPolicy,
    CachePolicy,
    CallTimeoutError,
    CircuitOpenError,
    DuplicateCallError,
    SessionExhaustedError,
    Switchgear,
    ThreadsBusyError,
)
from switchgear.testing import InMemoryFleet
from tests.support.limits import ANSWER_S

OFTEN = BreakerPolicy(consecutive_failures=100)


@pytest.fixture
def steady():
    return Switchgear.local(local_policies=OFTEN)


def ends(tool, number):
    """How so many calls ended."""
    found = []
    for _ in range(number):
        try:
            found.append(tool())
        except Exception as error:  # noqa: BLE001 - however it ended
            found.append(type(error).__name__)
    return found


# -- refused and failed ---------------------------------------------------------------------------------------------------


def test_a_call_that_the_circuit_refused_does_not_count_as_a_repetition(gear, open_circuit):
    open_circuit("t")
    refused = gear.guard("t", on_duplicate="refuse")(lambda: "made")
    for _ in range(5):
        with pytest.raises(CircuitOpenError, match="Do not call it again") as error:
            refused()
        assert error.value.source == "local"
    gear.guard("other")(lambda: "from the other tool")
    repeated = []
    watched = gear.guard("t", on_duplicate=repeated.append)(lambda: "made")
    assert ends(watched, 5) == ["CircuitOpenError"] * 5
    assert repeated == []


def test_a_call_that_the_session_refused_does_not_count_as_a_repetition(steady):
    guarded = steady.guard("t", on_duplicate="refuse")(lambda: "made")
    with steady.session("s-1", max_calls=1):
        steady.call("other", len, "abc")
        for _ in range(5):
            with pytest.raises(SessionExhaustedError):
                guarded()


def test_a_call_may_be_tried_again_after_the_tool_failed(steady):
    answers = iter([ConnectionError("down")] * 4 + ["made"] * 5)

    @steady.guard("t", on_duplicate="refuse")
    def tool():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert ends(tool, 7) == ["ConnectionError"] * 4 + ["made", "made", "DuplicateCallError"]


async def test_a_call_may_be_tried_again_after_a_timeout_or_a_broken_stream(steady):
    @steady.guard("slow", on_duplicate="refuse", timeout=0.01)
    async def slow():
        await asyncio.sleep(60)

    @steady.guard("stream", on_duplicate="refuse")
    async def stream():
        yield 1
        raise ConnectionError("broken off")

    for _ in range(4):
        with pytest.raises(CallTimeoutError):
            await slow()
        with pytest.raises(ConnectionError):
            assert [item async for item in stream()]


def test_a_call_may_be_tried_again_after_an_outage_but_not_after_the_tools_own_error(steady):
    def answering(text, kind):
        return steady.guard(kind, on_duplicate="refuse", classify_result=lambda _result: kind)(lambda: text)

    assert ends(answering("down", "server"), 5) == ["down"] * 5
    assert ends(answering("no such city", "tool"), 3) == ["no such city"] * 2 + ["DuplicateCallError"]


@pytest.mark.parametrize("error", [ValueError("no such city"), KeyError("missing"), PermissionError("no")])
def test_the_callers_own_mistake_made_again_is_a_repetition(steady, error):
    def tool():
        raise error

    expected = type(error).__name__
    watched = steady.guard("t", on_duplicate="refuse", classify=lambda _error: "invalid_input")(tool)
    assert ends(watched, 3) == [expected, expected, "DuplicateCallError"]


def test_a_repeated_call_with_arguments_that_dont_fit_is_a_repetition(steady):
    guarded = steady.guard("t", on_duplicate="refuse")(lambda: 1)
    assert ends(lambda: guarded(town="Oslo"), 3) == ["TypeError", "TypeError", "DuplicateCallError"]


def test_a_call_for_which_there_was_no_thread_was_never_made():
    def made():
        return "made"

    gear = Switchgear.local(timed_threads=1)
    go_on = threading.Event()
    hanging = gear.guard("hanging", timeout=0.02)(lambda: go_on.wait(ANSWER_S))
    hurried = gear.guard("quick", timeout=0.005, on_duplicate="refuse")(made)
    patient = gear.guard("quick", timeout=30, on_duplicate="refuse")(made)
    with pytest.raises(CallTimeoutError):
        hanging()
    for _ in range(3):
        with pytest.raises(ThreadsBusyError):
            hurried()
    go_on.set()
    gear.guard("after", timeout=5)(lambda: 1)()
    assert patient() == "made"


def test_a_fallback_that_serves_gave_its_caller_something(gear, open_circuit):
    gear.guard("b")(lambda: "from b")
    a = gear.guard("a", fallback="b", on_duplicate="refuse")(lambda: "from a")
    open_circuit("a")
    assert ends(a, 3) == ["from b", "from b", "DuplicateCallError"]


def test_a_function_that_fails_in_place_of_the_tool_gave_nothing(gear, open_circuit):
    def stand_in():
        raise ConnectionError("down too")

    a = gear.guard("a", fallback=stand_in, on_duplicate="refuse")(lambda: "from a")
    open_circuit("a")
    assert ends(a, 5) == ["ConnectionError"] * 5


# -- served without a call ------------------------------------------------------------------------------------------------


def test_a_result_from_the_cache_is_a_repetition(steady):
    made, repeated = [], []
    guarded = steady.guard("t", cache=CachePolicy(ttl_s=60), on_duplicate=lambda one: repeated.append(one.count))(
        lambda: made.append(1)
    )
    for _ in range(5):
        guarded()
    assert (len(made), repeated) == (1, [3, 4, 5])


async def test_a_result_of_another_callers_flight_is_a_repetition(steady):
    made, repeated = [], []

    @steady.guard("t", single_flight=True, on_duplicate=lambda one: repeated.append(one.count))
    async def tool():
        made.append(1)
        await asyncio.sleep(0.01)

    await asyncio.gather(*(tool() for _ in range(5)))
    assert (len(made), repeated) == (1, [3, 4, 5])


@pytest.mark.slow
def test_a_shared_flight_of_threads_counts_only_if_it_had_a_result(steady):
    repeated, together = [], threading.Barrier(4)

    @steady.guard("t", single_flight=True, on_duplicate=lambda one: repeated.append(one.count))
    def tool(fails):
        threading.Event().wait(0.1)
        if fails:
            raise ConnectionError("down")

    def work(fails):
        together.wait(ANSWER_S)
        tool(fails)

    with ThreadPoolExecutor(4) as pool:
        for fails, expected in ((True, []), (False, [3, 4])):
            ended = [pool.submit(work, fails) for _ in range(4)]
            assert [isinstance(one.exception(10), ConnectionError) for one in ended] == [fails] * 4
            assert sorted(repeated) == expected


# -- events and sessions ----------------------------------------------------------------------------------------------


def test_a_result_from_the_cache_sends_no_event_and_the_next_call_carries_the_count():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    cached = gear.guard("t", cache=CachePolicy(ttl_s=60), on_duplicate=print)(lambda: 1)
    plain = gear.guard("u", on_duplicate=lambda _one: None)(lambda: 1)
    with gear.session("s-1"):
        cached()
        cached()
        plain()
        plain()
    gear.flush()
    repeated = [(event["tool_name"], event.get("metadata")) for event in fleet.events()]
    assert repeated == [("t", None), ("u", None), ("u", {"duplicates": 2})]


def test_a_session_that_was_left_shares_no_counts_with_the_next_of_its_name(steady):
    guarded = steady.guard("t", on_duplicate="refuse")(lambda: "made")
    for _ in range(4):
        with steady.session("run-1"):
            assert ends(guarded, 3) == ["made", "made", "DuplicateCallError"]
    assert len(steady._runtime.duplicates) == 0


def test_while_a_session_is_entered_anywhere_its_calls_are_remembered(steady):
    guarded = steady.guard("t", on_duplicate="refuse")(lambda: "made")
    session = steady.session("run-1")
    with session:
        for _ in range(2):
            with session:
                assert guarded() == "made"
        with pytest.raises(DuplicateCallError):
            guarded()


def test_calls_are_not_counted_in_an_inner_session_of_another_client(steady):
    repeated = []
    guarded = steady.guard("t", on_duplicate=repeated.append)(lambda: "made")
    with steady.session("mine"), Switchgear.local().session("theirs"):
        ends(guarded, 3)
    assert [(one.session_id, one.count) for one in repeated] == [("mine", 3)]
