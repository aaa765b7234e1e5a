"""A call that takes too long ends in a TimeoutError, counts as a timeout, and is reported once, whatever comes later."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from switchgear import BreakerPolicy, CallTimeoutError, CircuitOpenError, Switchgear
from switchgear.telemetry.hooks import FunctionHooks
from tests.support.limits import ANSWER_S, HAPPEN_S
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

    @observed.guard("t", timeout=0.02)
    def hang():
        go_on.wait(HAPPEN_S)
        finished.set()
        raise RuntimeError("late")

    with pytest.raises(CallTimeoutError) as caught:
        hang()
    assert (caught.value.tool, caught.value.limit_s) == ("t", 0.02)
    go_on.set()
    assert finished.wait(ANSWER_S)
    until(lambda: observed._runtime.threads.busy == 0)
    assert [(one.status, one.error_type) for one in outcomes] == [("timeout", "CallTimeoutError")], "reported once"


def test_timeouts_open_the_circuit(observed):
    go_on = threading.Event()
    slow = observed.guard("t", timeout=0.02)(lambda: go_on.wait(HAPPEN_S))
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
