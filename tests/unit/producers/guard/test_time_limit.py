"""A call that takes too long ends in a TimeoutError, counts as a timeout, and is reported once, whatever comes later."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import pickle
import threading
import time
import weakref

import pytest

from switchgear import BreakerPolicy, CallTimeoutError, CircuitOpenError, Switchgear, ThreadsBusyError
from switchgear.guard.time_limit import TimedThreads
from switchgear.telemetry.hooks import FunctionHooks


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def told(outcomes):
    return Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        hooks=[FunctionHooks(on_outcome=outcomes.append)],
        timed_threads=2,
    )


async def test_a_coroutine_is_cancelled_at_the_limit(told, outcomes):
    ended = []

    @told.guard("t", timeout=0.05)
    async def hang():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")

    with pytest.raises(TimeoutError, match=r"t did not answer within 0.05 s"):
        await hang()
    assert ended == ["cleaned up"]
    assert [(one.status, one.error_class) for one in outcomes] == [("timeout", "timeout")]


async def test_a_timeout_of_the_tools_own_stays_its_own(told):
    @told.guard("t", timeout=60)
    async def tool():
        raise TimeoutError("the socket's")

    with pytest.raises(TimeoutError, match="the socket's") as caught:
        await tool()
    assert not isinstance(caught.value, CallTimeoutError)


async def test_a_callers_cancellation_stays_one(told, outcomes):
    task = asyncio.ensure_future(told.with_options(timeout=60).acall("t", asyncio.sleep, 60))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.error_class for one in outcomes] == ["cancelled"]


def test_a_function_is_left_behind_at_the_limit_and_what_it_does_later_is_nobodys(told, outcomes):
    go_on = threading.Event()
    finished = threading.Event()

    @told.guard("t", timeout=0.3)
    def hang():
        go_on.wait(30)
        finished.set()
        raise RuntimeError("late")

    with pytest.raises(CallTimeoutError) as caught:
        hang()
    assert (caught.value.tool, caught.value.limit_s) == ("t", 0.3)
    go_on.set()
    assert finished.wait(10)
    wait_until(lambda: told._runtime.threads.busy == 0)
    assert [(one.status, one.error_type) for one in outcomes] == [("timeout", "CallTimeoutError")], "told once"


def test_timeouts_open_the_circuit(told):
    go_on = threading.Event()
    slow = told.guard("t", timeout=0.02)(lambda: go_on.wait(30))
    for _ in range(2):
        with pytest.raises(CallTimeoutError):
            slow()
    go_on.set()
    with pytest.raises(CircuitOpenError):
        slow()


def test_results_exceptions_and_context_variables_pass_through_the_thread(told):
    mark = contextvars.ContextVar("mark")
    mark.set("here")
    run = told.with_options(timeout=30)
    assert run.call("t", lambda a, *, b: (mark.get(), a, b), 1, b=2) == ("here", 1, 2)
    with pytest.raises(ZeroDivisionError) as caught:
        run.call("t", lambda: 1 // 0)
    assert any(entry.name == "<lambda>" for entry in caught.traceback)
    with told.session("s-1"):
        assert run.call("t", lambda: told.session("inner").status().session_id) == "inner"


def test_when_every_thread_is_taken_the_call_is_not_made_and_says_by_whom(told, outcomes):
    go_on = threading.Event()
    hang = told.guard("slow", timeout=0.05)(lambda: go_on.wait(30))
    for _ in range(2):
        with pytest.raises(CallTimeoutError):
            hang()
    made = []
    with pytest.raises(ThreadsBusyError) as caught:
        told.with_options(timeout=0.05).call("other", made.append, 1)
    assert "other was not called: all 2 threads" in caught.value.message
    assert "still running: slow 2" in caught.value.message
    assert made == []
    assert [one.tool for one in outcomes] == ["slow", "slow"], "the other tool is not to blame"
    go_on.set()
    wait_until(lambda: told._runtime.threads.busy == 0)
    assert told.with_options(timeout=5).call("other", lambda: 1) == 1


def test_a_call_waits_for_a_thread_within_its_limit():
    threads = TimedThreads(1)
    first = threading.Thread(target=threads.run, args=("a", 30, time.sleep, (0.1,), {}))
    first.start()
    wait_until(lambda: threads.busy == 1)
    assert threads.run("b", 30, lambda: "made", (), {}) == "made"
    first.join(10)


def test_many_calls_share_few_threads():
    threads = TimedThreads(4)
    names = set()

    def work():
        for _ in range(50):
            names.add(threads.run("t", 30, threading.get_ident, (), {}))

    callers = [threading.Thread(target=work) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert 1 <= len(names) <= 4
    wait_until(lambda: threads.busy == 0)


def test_a_thread_keeps_neither_arguments_nor_result():
    class Big:
        pass

    threads = TimedThreads(1)
    argument, result = Big(), Big()
    seen = [weakref.ref(argument), weakref.ref(result)]
    held = [result]
    threads.run("t", 30, lambda _given: held.pop(), (argument,), {})
    del argument, result
    wait_until(lambda: gc.collect() >= 0 and all(ref() is None for ref in seen))


def test_threads_are_daemons_so_a_hung_tool_keeps_no_program_from_ending():
    assert TimedThreads(1).run("t", 30, lambda: threading.current_thread().daemon, (), {})


def test_the_error_survives_pickling():
    again = pickle.loads(pickle.dumps(CallTimeoutError("t", 1.5)))
    assert (again.tool, again.limit_s, str(again)) == ("t", 1.5, str(CallTimeoutError("t", 1.5)))


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# -- what takes no notice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["returns", "raises", "raises in its clean-up"])
async def test_a_coroutine_that_takes_no_notice_of_its_cancellation_is_late(told, outcomes, then):
    @told.guard("t", timeout=0.02)
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


async def test_a_callers_cancellation_at_the_limit_stays_one(told):
    @told.guard("t", timeout=0.02)
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
    """Nobody calls it: its circuit is open."""
    return city


@pytest.fixture
def standing_in(told):
    """A coroutine function whose tool is open, and a slow function that stands in for it."""
    mark = contextvars.ContextVar("mark", default="elsewhere")

    def slow(city, pause=0.1):
        time.sleep(pause)
        if pause == 0:
            raise ZeroDivisionError
        return city, mark.get(), threading.current_thread() is not threading.main_thread()

    told.guard("b", timeout=1.5)(slow)

    async def primary(city, pause=0.1):
        mark.set("here")
        return await acall(city)

    guarded = told.guard("a", fallback="b")(primary)
    for _ in range(2):
        told.try_acquire("a").failure(ConnectionError())
    return guarded


async def test_a_function_with_a_limit_that_stands_in_for_a_coroutine_holds_up_no_event_loop(standing_in, outcomes):
    number, task = await ticks(standing_in("Oslo"))
    assert task.result() == ("Oslo", "elsewhere", True)
    assert number >= 5
    with pytest.raises(ZeroDivisionError):
        await standing_in("Oslo", pause=0)
    assert [one.status for one in outcomes if one.tool == "b"] == ["success", "error"]


async def test_and_is_left_behind_at_its_limit(told, standing_in, outcomes):
    number, task = await ticks(standing_in("Oslo", pause=2.0))
    with pytest.raises(CallTimeoutError, match=r"b did not answer within 1\.5 s"):
        task.result()
    assert number >= 10
    assert [one.status for one in outcomes if one.tool == "b"] == ["timeout"]
    wait_until(lambda: told._runtime.threads.busy == 0)


async def test_a_cancelled_caller_of_one_leaves_it_behind_too(told, standing_in, outcomes):
    task = asyncio.ensure_future(standing_in("Oslo"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.error_class for one in outcomes if one.tool == "b"] == ["cancelled"]
    wait_until(lambda: told._runtime.threads.busy == 0)


async def test_with_every_thread_taken_it_waits_for_one_and_is_not_made_without(told, standing_in, outcomes):
    go_on = threading.Event()
    for _ in range(2):
        with pytest.raises(CallTimeoutError):
            told.with_options(timeout=0.01).call("slow", go_on.wait, 30)
    number, task = await ticks(standing_in("Oslo"))
    with pytest.raises(ThreadsBusyError, match="b was not called"):
        task.result()
    assert number >= 10
    assert [one.tool for one in outcomes if one.tool == "b"] == []
    asyncio.get_running_loop().call_later(0.02, go_on.set)
    assert (await standing_in("Oslo", pause=0.01))[0] == "Oslo"


# -- limits within limits ---------------------------------------------------------------------------------------------


def test_a_call_within_one_that_finds_no_thread_does_not_unmake_the_outer_one():
    gear = Switchgear.local(timed_threads=1)
    inner = gear.guard("inner", timeout=0.02)(lambda: "never")
    outer = gear.guard("outer", timeout=10)(lambda: inner())  # noqa: PLW0108 - a function of its own
    with gear.session() as session:
        with pytest.raises(ThreadsBusyError, match="inner was not called"):
            outer()
        assert session.status().calls == 1
