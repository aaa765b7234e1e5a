"""A call that takes too long ends in a TimeoutError, counts as a timeout, and is reported once, whatever comes later."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import threading
import time

import pytest

from switchgear import BreakerPolicy, CallTimeoutError, CircuitOpenError, Switchgear, SwitchgearError, ThreadsBusyError
from switchgear.telemetry.hooks import FunctionHooks
from tests.support.waiting import until


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def observed(outcomes):
    return Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        hooks=[FunctionHooks(on_outcome=outcomes.append)],
        timed_threads=2,
    )


async def test_a_coroutine_is_cancelled_at_the_limit(observed, outcomes):
    ended = []

    @observed.guard("t", timeout=0.05)
    async def hang():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")

    with pytest.raises(TimeoutError, match=r"t did not answer within 0.05 s"):
        await hang()
    assert ended == ["cleaned up"]
    assert [(one.status, one.error_class) for one in outcomes] == [("timeout", "timeout")]


async def test_the_tools_own_timeout_error_goes_through(observed):
    @observed.guard("t", timeout=60)
    async def tool():
        raise TimeoutError("the socket's")

    with pytest.raises(TimeoutError, match="the socket's") as caught:
        await tool()
    assert not isinstance(caught.value, CallTimeoutError)


async def test_cancelling_the_caller_counts_as_cancelled_and_not_as_a_timeout(observed, outcomes):
    task = asyncio.ensure_future(observed.with_options(timeout=60).acall("t", asyncio.sleep, 60))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.error_class for one in outcomes] == ["cancelled"]


def test_a_function_is_left_behind_at_the_limit_and_its_later_end_is_not_reported(observed, outcomes):
    go_on = threading.Event()
    finished = threading.Event()

    @observed.guard("t", timeout=0.3)
    def hang():
        go_on.wait(30)
        finished.set()
        raise RuntimeError("late")

    with pytest.raises(CallTimeoutError) as caught:
        hang()
    assert (caught.value.tool, caught.value.limit_s) == ("t", 0.3)
    go_on.set()
    assert finished.wait(10)
    until(lambda: observed._runtime.threads.busy == 0)
    assert [(one.status, one.error_type) for one in outcomes] == [("timeout", "CallTimeoutError")], "reported once"


def test_timeouts_open_the_circuit(observed):
    go_on = threading.Event()
    slow = observed.guard("t", timeout=0.02)(lambda: go_on.wait(30))
    for _ in range(2):
        with pytest.raises(CallTimeoutError):
            slow()
    go_on.set()
    with pytest.raises(CircuitOpenError):
        slow()


def test_results_exceptions_and_context_variables_pass_through_the_thread(observed):
    mark = contextvars.ContextVar("mark")
    mark.set("here")
    run = observed.with_options(timeout=30)
    assert run.call("t", lambda a, *, b: (mark.get(), a, b), 1, b=2) == ("here", 1, 2)
    with pytest.raises(ZeroDivisionError) as caught:
        run.call("t", lambda: 1 // 0)
    assert any(entry.name == "<lambda>" for entry in caught.traceback)
    with observed.session("s-1"):
        assert run.call("t", lambda: observed.session("inner").status().session_id) == "inner"


# -- what takes no notice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["returns", "raises", "raises in its clean-up"])
async def test_a_coroutine_that_ignores_its_cancellation_is_late(observed, outcomes, then):
    @observed.guard("t", timeout=0.02)
    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if then == "raises":
                raise ValueError("cut off") from None
            if then == "returns":
                return "late"
        finally:
            if then == "raises in its clean-up":
                raise KeyError("not there")

    with pytest.raises(CallTimeoutError):
        await stubborn()
    assert [(one.status, one.error_class) for one in outcomes] == [("timeout", "timeout")]


async def test_cancelling_the_caller_at_the_limit_ends_the_call(observed):
    @observed.guard("t", timeout=0.02)
    async def slow():
        await asyncio.sleep(60)

    task = asyncio.ensure_future(slow())
    asyncio.get_running_loop().call_later(0.02, task.cancel)
    with pytest.raises((asyncio.CancelledError, CallTimeoutError)):
        await task


# -- a function in place of a coroutine -------------------------------------------------------------------------------


async def ticks(until):
    """How often the event loop came round meanwhile."""
    task, number = asyncio.ensure_future(until), 0
    while not task.done():
        await asyncio.sleep(0.005)
        number += 1
    return number, task


async def acall(city="Oslo"):
    """It is not called: its circuit is open."""
    return city


@pytest.fixture
def standing_in(observed):
    """A coroutine function whose tool is open, and a slow function that stands in for it."""
    mark = contextvars.ContextVar("mark", default="elsewhere")

    def slow(city, pause=0.1):
        time.sleep(pause)
        if pause == 0:
            raise ZeroDivisionError
        return city, mark.get(), threading.current_thread() is not threading.main_thread()

    observed.guard("b", timeout=1.5)(slow)

    async def primary(city, pause=0.1):
        mark.set("here")
        return await acall(city)

    guarded = observed.guard("a", fallback="b")(primary)
    for _ in range(2):
        observed.try_acquire("a").failure(ConnectionError())
    return guarded


async def test_a_function_with_a_limit_that_stands_in_for_a_coroutine_holds_up_no_event_loop(standing_in, outcomes):
    number, task = await ticks(standing_in("Oslo"))
    assert task.result() == ("Oslo", "elsewhere", True)
    assert number >= 5
    with pytest.raises(ZeroDivisionError):
        await standing_in("Oslo", pause=0)
    assert [one.status for one in outcomes if one.tool == "b"] == ["success", "error"]


async def test_a_function_that_stands_in_for_a_coroutine_is_left_behind_at_its_limit(observed, standing_in, outcomes):
    number, task = await ticks(standing_in("Oslo", pause=2.0))
    with pytest.raises(CallTimeoutError, match=r"b did not answer within 1\.5 s"):
        task.result()
    assert number >= 10
    assert [one.status for one in outcomes if one.tool == "b"] == ["timeout"]
    until(lambda: observed._runtime.threads.busy == 0)


async def test_cancelling_the_caller_leaves_behind_the_function_that_stands_in(observed, standing_in, outcomes):
    task = asyncio.ensure_future(standing_in("Oslo"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.error_class for one in outcomes if one.tool == "b"] == ["cancelled"]
    until(lambda: observed._runtime.threads.busy == 0)


async def test_a_function_that_stands_in_is_not_called_when_every_thread_is_busy(observed, standing_in, outcomes):
    go_on = threading.Event()
    for _ in range(2):
        with pytest.raises(CallTimeoutError):
            observed.with_options(timeout=0.01).call("slow", go_on.wait, 30)
    number, task = await ticks(standing_in("Oslo"))
    with pytest.raises(ThreadsBusyError, match="b was not called"):
        task.result()
    assert number >= 10
    assert [one.tool for one in outcomes if one.tool == "b"] == []
    asyncio.get_running_loop().call_later(0.02, go_on.set)
    assert (await standing_in("Oslo", pause=0.01))[0] == "Oslo"


# -- limits within limits ---------------------------------------------------------------------------------------------


def test_a_time_limit_error_survives_pickling():
    again = pickle.loads(pickle.dumps(CallTimeoutError("t", 1.5)))
    assert (again.tool, again.limit_s, str(again)) == ("t", 1.5, str(CallTimeoutError("t", 1.5)))


# -- without an asyncio task ------------------------------------------------------------------------------------------


def drive(coroutine):
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize("kind", ["coroutine", "stream"])
@pytest.mark.parametrize("where", ["no event loop", "a callback"])
def test_a_call_with_a_limit_is_not_made_without_a_task_to_cancel(observed, outcomes, kind, where):
    made, errors = [], []

    @observed.guard("t", timeout=5)
    async def tool():
        made.append(1)

    @observed.guard("t", timeout=5)
    async def stream():
        made.append(1)
        yield 1

    def call():
        for _ in range(3):
            with pytest.raises(
                SwitchgearError, match="t was not called: its time limit needs an asyncio task"
            ) as caught:
                drive(tool() if kind == "coroutine" else stream().__anext__())
            errors.append(caught.value)

    async def from_a_callback():
        asyncio.get_running_loop().call_soon(call)
        await asyncio.sleep(0)

    if where == "a callback":
        asyncio.run(from_a_callback())
    else:
        call()
    assert len(errors) == 3
    assert (made, outcomes) == ([], [])
    assert not observed.is_open("t")


def test_a_call_with_a_limit_but_no_task_gives_its_half_open_permit_back():
    gear = Switchgear.local(
        local_policies=BreakerPolicy(
            consecutive_failures=1, wait_duration_in_open_state_s=0.02, permitted_number_of_calls_in_half_open_state=1
        )
    )

    @gear.guard("t", timeout=5)
    async def tool():
        pass

    gear.try_acquire("t").failure(ConnectionError("down"))
    until(lambda: not gear.is_open("t"))
    with pytest.raises(SwitchgearError, match="t was not called"):
        drive(tool())
    assert gear.status().local == {"t": "half_open"}
    assert gear.try_acquire("t").probe
