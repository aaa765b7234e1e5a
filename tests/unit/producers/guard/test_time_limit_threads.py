"""Calls with a time limit share a bounded number of threads, and wait for one when all are busy."""

from __future__ import annotations

import functools
import gc
import threading
import time
import weakref

import pytest

from switchgear import BreakerPolicy, CallTimeoutError, Switchgear, ThreadsBusyError
from switchgear.guard.time_limit import TimedThreads
from switchgear.telemetry.hooks import FunctionHooks
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.local_client import local_client
from tests.support.waiting import until

LONG = 30


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def one_thread(clock, outcomes):
    """A client with one timed thread, whose circuits open at the first failure."""
    return local_client(
        clock,
        timed_threads=1,
        local_policies=BreakerPolicy(consecutive_failures=1, slow_call_rate_threshold=1, minimum_number_of_calls=1,
                                     slow_call_duration_threshold_ms=1_000),
        hooks=[FunctionHooks(on_outcome=outcomes.append)],
    )  # fmt: skip


@pytest.fixture
def two_threads(outcomes):
    """A client with two timed threads."""
    return Switchgear.local(timed_threads=2, hooks=[FunctionHooks(on_outcome=outcomes.append)])


class Taken:
    """The client's one thread, taken until it is let go."""

    def __init__(self, gear):
        self._go_on = threading.Event()
        self._threads = gear._runtime.threads
        self._threads.start("hangs", LONG, lambda: self._go_on.wait(LONG))
        until(lambda: self._threads.busy == 1)

    def let_go(self):
        self._go_on.set()

    def let_go_when_waited_for(self, meanwhile=lambda: None):
        """Call ``meanwhile`` when a call waits for the thread, and then let it go."""
        asked, has_room = threading.Event(), self._threads._has_room

        def look():
            asked.set()
            return has_room()

        def let_go():
            asked.wait(LONG)
            meanwhile()
            self.let_go()

        self._threads._has_room = look
        threading.Thread(target=let_go, daemon=True).start()


def of(outcomes, tool):
    return [(one.status, one.error_class) for one in outcomes if one.tool == tool]


def test_the_wait_for_a_thread_does_not_count_in_the_duration_of_a_call(one_thread, clock, outcomes):
    def pass_by():
        clock.now += 10

    Taken(one_thread).let_go_when_waited_for(pass_by)
    assert one_thread.with_options(timeout=LONG).call("healthy", lambda: "fine") == "fine"
    assert of(outcomes, "healthy") == [("success", None)]
    assert clock.now == Clock().now + 10
    assert 0 <= outcomes[-1].duration_ms < 1_000
    assert not one_thread.is_open("healthy")


def test_a_call_waits_for_a_thread():
    threads = TimedThreads(1)
    first = threading.Thread(target=threads.start, args=("a", 30, lambda: time.sleep(0.1)))
    first.start()
    until(lambda: threads.busy == 1)
    assert threads.start("b", 30, lambda: "made").result(HAPPEN_S) == "made"
    first.join(ANSWER_S)


@pytest.mark.slow
def test_many_calls_never_run_in_more_threads_than_the_limit():
    threads = TimedThreads(4)
    running, most = set(), []

    def tool(number):
        running.add(number)
        most.append(len(running))
        time.sleep(0.001)
        running.discard(number)

    def work(caller):
        for call in range(50):
            threads.start("t", 30, functools.partial(tool, (caller, call))).result(HAPPEN_S)

    callers = [threading.Thread(target=work, args=(caller,)) for caller in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(HAPPEN_S)
    assert len(most) == 8 * 50
    assert max(most) <= 4
    until(lambda: threads.busy == 0)


def test_an_idle_thread_makes_the_next_call():
    threads = TimedThreads(4)
    made_by = set()
    for _ in range(20):
        made_by.add(threads.start("t", 30, threading.get_ident).result(HAPPEN_S))
        until(lambda: threads.busy == 0)
    assert len(made_by) == 1


def test_a_call_that_the_system_has_no_thread_for_is_not_made(one_thread, outcomes, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    made = []
    tool = one_thread.guard("t", timeout=LONG)(lambda: made.append(1))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ThreadsBusyError, match="can't start new thread"):
        tool()
    assert (made, outcomes) == ([], [])


@pytest.mark.slow
def test_a_thread_keeps_neither_arguments_nor_result():
    class Big:
        pass

    threads = TimedThreads(1)
    argument, result = Big(), Big()
    seen = [weakref.ref(argument), weakref.ref(result)]
    held = [result]
    threads.start("t", 30, functools.partial(lambda _given: held.pop(), argument)).result(HAPPEN_S)
    del argument, result
    until(lambda: gc.collect() >= 0 and all(ref() is None for ref in seen))


def test_threads_are_daemons_so_that_a_hung_tool_does_not_keep_the_program_from_ending():
    assert TimedThreads(1).start("t", 30, lambda: threading.current_thread().daemon).result(HAPPEN_S)


def test_the_error_of_a_call_without_a_thread_names_the_tools_that_hold_them(two_threads, outcomes):
    go_on = threading.Event()
    hang = two_threads.guard("slow", timeout=0.05)(lambda: go_on.wait(HAPPEN_S))
    for _ in range(2):
        with pytest.raises(CallTimeoutError):
            hang()
    made = []
    with pytest.raises(ThreadsBusyError) as caught:
        two_threads.with_options(timeout=0.05).call("other", made.append, 1)
    assert "other was not called: all 2 threads" in caught.value.message
    assert "still running: slow 2" in caught.value.message
    assert made == []
    assert [one.tool for one in outcomes] == ["slow", "slow"], "the other tool is not to blame"
    go_on.set()
    until(lambda: two_threads._runtime.threads.busy == 0)
    assert two_threads.with_options(timeout=5).call("other", lambda: 1) == 1


def test_an_inner_call_that_finds_no_thread_leaves_the_outer_call_counted():
    gear = Switchgear.local(timed_threads=1)
    inner = gear.guard("inner", timeout=0.02)(lambda: "never")
    outer = gear.guard("outer", timeout=10)(lambda: inner())  # noqa: PLW0108 - a function of its own
    with gear.session() as session:
        with pytest.raises(ThreadsBusyError, match="inner was not called"):
            outer()
        assert session.status().calls == 1
