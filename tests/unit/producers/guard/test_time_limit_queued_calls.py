"""The wait for a timed thread is part of the caller's limit, and no time of the tool's."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time

import pytest

from switchgear import BreakerPolicy, CallTimeoutError, Switchgear, SwitchgearError, ThreadsBusyError
from switchgear.guard.time_limit import TimedThreads, Work
from switchgear.telemetry.hooks import FunctionHooks
from tests.support.waiting import until

LONG = 30


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def one_thread(outcomes):
    """A client with one timed thread, whose circuits open at the first failure."""
    return Switchgear.local(
        timed_threads=1,
        local_policies=BreakerPolicy(consecutive_failures=1, slow_call_rate_threshold=1, minimum_number_of_calls=1,
                                     slow_call_duration_threshold_ms=1_000),
        hooks=[FunctionHooks(on_outcome=outcomes.append)],
    )  # fmt: skip


class Taken:
    """The client's one thread, taken until it is let go."""

    def __init__(self, gear):
        self._go_on = threading.Event()
        self._threads = gear._runtime.threads
        self._threads.hand_over("hangs", LONG, self._go_on.wait, (LONG,), {})
        until(lambda: self._threads.busy == 1)

    def let_go(self):
        self._go_on.set()

    def let_go_after(self, seconds):
        threading.Timer(seconds, self._go_on.set).start()


def of(outcomes, tool):
    return [(one.status, one.error_class) for one in outcomes if one.tool == tool]


def test_a_call_that_waited_and_was_cut_off_opens_no_circuit_of_its_tool(one_thread, outcomes):
    go_on, taken = threading.Event(), Taken(one_thread)
    healthy = one_thread.guard("healthy", timeout=2.0)(lambda: go_on.wait(LONG))
    taken.let_go_after(0.5)
    with pytest.raises(
        CallTimeoutError, match=r"healthy did not answer within 2 s; [\d.]+ s of them it waited for"
    ) as caught:
        healthy()
    go_on.set()
    assert caught.value.queued_s > 0.2
    assert of(outcomes, "healthy") == [("cancelled", "cancelled")]
    assert not one_thread.is_open("healthy")


def test_one_that_was_called_at_once_does(one_thread, outcomes):
    go_on = threading.Event()
    with pytest.raises(CallTimeoutError, match=r"within 0\.05 s\. Do not") as caught:
        one_thread.with_options(timeout=0.05).call("hangs", go_on.wait, LONG)
    go_on.set()
    assert caught.value.queued_s == 0
    assert of(outcomes, "hangs") == [("timeout", "timeout")]
    assert one_thread.is_open("hangs")


def test_a_short_wait_is_no_excuse():
    """Else a tool that hangs would never be told of where the pool is always full."""
    work = Work("t", 10.0, len, (), {})
    work.queued_s = 0.9
    assert not work.cut_short(CallTimeoutError("t", 10.0, work.robbed_s))
    work.queued_s = 1.1
    assert work.cut_short(CallTimeoutError("t", 10.0, work.robbed_s))


def test_a_call_within_it_that_waited_is_not_its_own_wait(one_thread):
    work = Work("t", 10.0, len, (), {})
    work.queued_s = 5.0
    assert not work.cut_short(CallTimeoutError("within", 1.0, 0.5))
    assert not work.cut_short(CallTimeoutError("within", 1.0))
    assert not Work("t", 10.0, len, (), {}).cut_short(CallTimeoutError("within", 1.0))


def test_the_wait_makes_no_call_a_slow_one(one_thread, outcomes):
    taken = Taken(one_thread)
    taken.let_go_after(1.2)
    assert one_thread.with_options(timeout=LONG).call("healthy", lambda: "fine") == "fine"
    assert of(outcomes, "healthy") == [("success", None)]
    assert 0 <= outcomes[-1].duration_ms < 1_000
    assert not one_thread.is_open("healthy")


def test_a_repetition_of_one_that_was_cut_off_is_none():
    gear = Switchgear.local(timed_threads=1)
    go_on, taken = threading.Event(), Taken(gear)
    seen = []
    tool = gear.guard("t", timeout=2.0, on_duplicate=seen.append, duplicate_after=2)(lambda: go_on.wait(LONG))
    taken.let_go_after(0.5)
    with pytest.raises(CallTimeoutError):
        tool()
    go_on.set()
    assert tool()
    assert seen == []


# -- a function in place of a coroutine -------------------------------------------------------------------------------


def fallback_of(gear, function, limit):
    """A coroutine function whose tool is open; ``function`` stands in for it."""
    gear.guard("b", timeout=limit)(function)

    @gear.guard("a", fallback="b")
    async def tool():
        return "never"

    gear.try_acquire("a").failure(ConnectionError())
    return tool


async def test_a_coroutines_wait_is_within_its_one_limit(one_thread, outcomes):
    taken = Taken(one_thread)
    tool = fallback_of(one_thread, lambda: time.sleep(2.3), 2.5)
    taken.let_go_after(1.0)
    with pytest.raises(CallTimeoutError, match=r"b did not answer within 2\.5 s; [\d.]+ s of them"):
        await tool()
    assert of(outcomes, "b") == [("cancelled", "cancelled")]
    assert not one_thread.is_open("b")


async def test_a_coroutines_wait_makes_no_call_a_slow_one(one_thread, outcomes):
    taken = Taken(one_thread)
    taken.let_go_after(1.2)
    assert await fallback_of(one_thread, lambda: "fine", LONG)() == "fine"
    assert of(outcomes, "b") == [("success", None)]
    assert not one_thread.is_open("b")


async def test_a_thread_that_is_free_when_the_limit_is_over_is_not_taken():
    threads, go_on, made = TimedThreads(1), threading.Event(), []
    threads.hand_over("hangs", LONG, go_on.wait, (LONG,), {})
    waiting = asyncio.ensure_future(threads.ahand_over("t", 0.05, made.append, (1,), {}))
    await asyncio.sleep(0)
    go_on.set()
    time.sleep(0.1)  # noqa: ASYNC251 - the event loop is held up beyond the limit
    with pytest.raises(ThreadsBusyError):
        await waiting
    assert made == []


def test_the_error_keeps_its_wait_when_it_is_pickled():
    again = pickle.loads(pickle.dumps(CallTimeoutError("t", 1.5, 0.75)))
    assert again.queued_s == 0.75
    assert str(again) == (
        "The tool t did not answer within 1.5 s; 0.75 s of them it waited for a thread."
        " Do not repeat the call at once: it may still take effect."
    )


# -- no task to cancel ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["coroutine", "stream"])
@pytest.mark.parametrize("where", ["no event loop", "no task"])
def test_a_limit_without_a_task_is_told_and_the_call_is_not_made(one_thread, outcomes, kind, where):
    made, told = [], []

    @one_thread.guard("t", timeout=5)
    async def tool():
        made.append(1)

    @one_thread.guard("t", timeout=5)
    async def stream():
        made.append(1)
        yield 1

    def drive():
        with pytest.raises(SwitchgearError, match="t was not called: its time limit needs an asyncio task") as caught:
            (tool() if kind == "coroutine" else stream().__anext__()).send(None)
        told.append(caught.value)

    async def from_a_callback():
        asyncio.get_running_loop().call_soon(drive)
        await asyncio.sleep(0)

    if where == "no task":
        asyncio.run(from_a_callback())
    else:
        drive()
    assert len(told) == 1
    assert (made, outcomes) == ([], [])
    assert not one_thread.is_open("t")
