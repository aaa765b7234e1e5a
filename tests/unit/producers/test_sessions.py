"""A session starts fresh, ends with itself, and has limits that switching tools does not evade."""

from __future__ import annotations

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from switchgear import (
    BreakerPolicy,
    CircuitOpenError,
    SessionExhaustedError,
    Switchgear,
    SwitchgearError,
    Usage,
)
from switchgear.guard.rejections import Caller
from switchgear.sessions import session_stack
from switchgear.telemetry.hooks import FunctionHooks
from switchgear.testing import InMemoryFleet
from tests.support.limits import ANSWER_S, HAPPEN_S

QUICK = BreakerPolicy(consecutive_failures=2)


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=QUICK)


def fail(gear, tool, error=None):
    gear.try_acquire(tool).failure(error or ConnectionError("down"))


# -- circuits ---------------------------------------------------------------------------------------------------------


def test_circuits_of_a_session_start_closed_and_end_with_it(gear):
    for _ in range(2):
        fail(gear, "search")
    assert gear.is_open("search")
    with gear.session("s-1") as session:
        assert not gear.is_open("search"), "a fresh start"
        for _ in range(2):
            fail(gear, "maps")
        assert gear.is_open("maps")
        assert session.status().circuits == {"maps": "open"}
    assert gear.is_open("search")
    assert not gear.is_open("maps")
    with gear.session("s-2"):
        assert gear.try_acquire("maps")


def test_a_session_may_have_policies_of_its_own(gear):
    with gear.session(policies=BreakerPolicy(consecutive_failures=1)):
        fail(gear, "search")
        assert gear.is_open("search")


def test_the_fleets_circuit_refuses_in_a_session():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    fleet.open_circuit("search")
    with gear.session("s-1"):
        refusal = gear.try_acquire("search")
        assert (bool(refusal), refusal.source) == (False, "fleet")
        assert gear.try_acquire("maps")


def test_events_carry_the_session_and_the_user():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    with gear.session("s-1", user_id="ana"):
        gear.call("search", lambda: 1)
        gear.try_acquire("maps", user_id="bob", session_id="other").success()
        fleet.open_circuit("search")
        assert not gear.try_acquire("search")
    gear.call("search-again", lambda: 1)
    gear.flush()
    events = [(one["tool_name"], one.get("user_id"), one.get("session_id"), one["status"]) for one in fleet.events()]
    assert events == [
        ("search", "ana", "s-1", "success"),
        ("maps", "bob", "other", "success"),
        ("search", "ana", "s-1", "rejected"),
        ("search-again", None, None, "success"),
    ]


def test_hooks_are_notified_of_the_circuits_of_a_session():
    changes = []
    gear = Switchgear.local(local_policies=QUICK, hooks=[FunctionHooks(on_transition=changes.append)])
    with gear.session():
        for _ in range(2):
            fail(gear, "search")
    assert [(change.tool, change.previous, change.state) for change in changes] == [("search", "closed", "open")]


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_token_budget_counts_all_tools_together(gear):
    with gear.session("s-1", token_budget=100) as session:
        gear.try_acquire("a").success(input_tokens=30, output_tokens=20)
        fail(gear, "b")
        gear.try_acquire("c").failure("no such city", output_tokens=49)
        assert session.status().tokens_left == 1
        gear.try_acquire("d").success(cache_creation_tokens=1)
        for tool in "abcd":
            refusal = gear.try_acquire(tool)
            assert (refusal.source, refusal.reason) == (
                "session",
                "the token budget of session s-1 is spent (100 of 100)",
            )
            assert gear.is_open(tool)
    assert gear.try_acquire("a")


def test_switching_tools_does_not_evade_the_failure_limit(gear):
    with gear.session("s-1", max_failures=3) as session:
        for tool in "abc":
            fail(gear, tool)
        with pytest.raises(SessionExhaustedError, match=r"3 calls of session s-1 failed \(the limit is 3\)"):
            gear.call("d", lambda: 1)
        status = session.status()
        assert (status.failures, status.failures_left, status.refused, status.calls) == (3, 0, 1, 3)
        assert status.exhausted == "3 calls of session s-1 failed (the limit is 3)"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_a_cancelled_call_does_not_count_as_a_failure(gear, error):
    with gear.session(max_failures=1) as session:
        fail(gear, "a", error)
        assert session.status().failures == 0


def test_a_refused_call_counts_neither_as_a_call_nor_as_a_failure(gear):
    with gear.session(max_failures=3, max_calls=3) as session:
        for _ in range(2):
            fail(gear, "a")
        for _ in range(5):
            assert not gear.try_acquire("a")
        assert (session.status().failures, session.status().calls_left) == (2, 1)


def test_lets_exactly_max_calls_through_when_threads_call_at_once(gear):
    session = gear.session(max_calls=10)
    barrier = threading.Barrier(8)

    def work():
        with session:
            barrier.wait(ANSWER_S)
            return sum(bool(gear.try_acquire(f"t{number}")) for number in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert sum(found.result(HAPPEN_S) for found in [pool.submit(work) for _ in range(8)]) == 10
    assert (session.status().calls, session.status().refused) == (10, 30)


def test_a_released_call_does_not_count(gear):
    with gear.session(max_calls=1) as session:
        gear.try_acquire("a").release()
        assert session.status().calls == 0
        assert gear.try_acquire("a")
        assert not gear.try_acquire("a")


def test_tokens_reported_during_the_call_count_at_once_and_only_once(gear):
    with gear.session(token_budget=10) as session, gear.permit("a") as permit:
        permit.tokens(3)
        permit.tokens(Usage(input_tokens=2, cost_usd=0.5))
        assert session.status().tokens == 5
        permit.success(output_tokens=4)
        permit.tokens(100)
    assert (session.status().tokens, session.status().cost_usd) == (9, 0.5)


def test_tokens_reported_by_several_threads_of_a_call_are_all_counted(gear):
    with gear.session() as session:
        inside = gear.try_acquire("a")
    outside = gear.try_acquire("a")
    barrier = threading.Barrier(8)

    def report():
        barrier.wait(ANSWER_S)
        for _ in range(100):
            inside.tokens(1)
            outside.tokens(Usage(input_tokens=1))

    with ThreadPoolExecutor(8) as pool:
        for found in [pool.submit(report) for _ in range(8)]:
            found.result(HAPPEN_S)
    assert session.status().tokens == 800
    assert sum(usage.tokens for usage in outside.usage) == 800


@pytest.mark.slow
def test_a_permit_reported_by_two_threads_at_once_counts_once(gear):
    with gear.session() as session:
        permits = [gear.try_acquire("a") for _ in range(500)]
    barrier = threading.Barrier(4)

    def report():
        barrier.wait(ANSWER_S)
        for permit in permits:
            permit.failure(ConnectionError(), output_tokens=1)

    with ThreadPoolExecutor(4) as pool:
        for found in [pool.submit(report) for _ in range(4)]:
            found.result(HAPPEN_S)
    assert (session.status().failures, session.status().tokens) == (500, 500)


def test_spend_counts_tokens_of_the_model(gear):
    with gear.session(token_budget=10) as session:
        session.spend(4)
        session.spend(Usage(input_tokens=6))
        assert not gear.try_acquire("a")
    with pytest.raises(SwitchgearError, match="must be a number from 0"):
        session.spend(-1)


@pytest.mark.parametrize("name", ["token_budget", "max_failures", "max_calls"])
@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "ten"])
def test_rejects_an_impossible_limit_and_names_it(gear, name, limit):
    with pytest.raises(SwitchgearError, match=f"{name} must be"):
        gear.session(**{name: limit})


def test_the_text_of_the_refusal_asks_the_model_to_finish(gear):
    with gear.session("s-1", max_calls=1):
        gear.try_acquire("a")
        refusal = gear.try_acquire("b")
    assert refusal.text == (
        "The tool b was not called: session s-1 has made its 1 calls."
        " Do not call any tool again in this session; finish with what you have."
    )
    error = refusal.error()
    assert isinstance(error, CircuitOpenError)
    assert error.message == "The session takes no more calls, so b was not called (session s-1 has made its 1 calls)."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.text) == (SessionExhaustedError, error.text)


def test_an_exhausted_session_does_not_fall_back_on_another_tool(gear):
    asked = []
    gear.guard("backup")(lambda: asked.append("backup"))
    for fallback in ("backup", lambda: asked.append("function")):
        guarded = gear.guard("a", fallback=fallback)(lambda: asked.append("a"))
        with gear.session(max_failures=1):
            fail(gear, "other")
            with pytest.raises(SessionExhaustedError):
                guarded()
    assert asked == []


# -- where it holds ---------------------------------------------------------------------------------------------------


async def test_nested_calls_tasks_and_asyncio_threads_are_in_the_session(gear):
    @gear.guard("inner")
    async def inner():
        await asyncio.to_thread(lambda: gear.call("in-thread", lambda: 1))
        return 1

    @gear.guard("outer")
    async def outer():
        return sum(await asyncio.gather(inner(), asyncio.create_task(inner())))

    async with gear.session() as session:
        assert await outer() == 2
    assert session.status().calls == 5
    assert await outer() == 2
    assert session.status().calls == 5


async def test_sessions_of_tasks_at_once_do_not_mix(gear):
    async def work(name, calls):
        async with gear.session(name) as session:
            for _ in range(calls):
                await gear.acall("t", asyncio.sleep, 0)
            return session.status().calls

    assert await asyncio.gather(*(work(f"s-{n}", n) for n in range(1, 20))) == list(range(1, 20))


def test_a_bare_thread_is_in_the_session_after_it_entered_it(gear):
    session = gear.session("s-1")
    seen = []

    def work():
        gear.try_acquire("outside")
        with session:
            seen.append(gear.try_acquire("inside").caller)

    with session:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(ANSWER_S)
        assert session_stack.get()[-1] is session
    assert seen == [Caller(session_id="s-1")]
    assert session.status().calls == 1


def test_leaving_a_session_restores_the_outer_one_after_an_exception(gear):
    with gear.session("outer") as outer:
        with pytest.raises(KeyError), gear.session("inner"):
            raise KeyError
        assert session_stack.get() == (outer,)
    assert not session_stack.get()


def test_an_inner_session_has_fresh_circuits_and_counts_in_the_outer_one(gear):
    with gear.session("outer", token_budget=10, max_calls=4) as outer:
        for _ in range(2):
            fail(gear, "a")
        with gear.session("inner", max_calls=9) as inner:
            gear.try_acquire("a").success(output_tokens=10)
            refusal = gear.try_acquire("b")
            assert refusal.reason == "the token budget of session outer is spent (10 of 10)"
            assert inner.exhausted == outer.exhausted == refusal.reason
        assert (inner.status().calls, outer.status().calls) == (1, 3)


def test_leaving_a_session_that_was_not_entered_here_does_nothing(gear):
    session = gear.session()
    session.__exit__(None, None, None)
    with gear.session("other") as other:
        session.__exit__(None, None, None)
        assert session_stack.get() == (other,)


def test_sessions_without_an_id_get_different_ids(gear):
    assert gear.session().session_id != gear.session().session_id


def test_if_every_fallback_is_open_the_tool_itself_is_called_within_the_limits(gear):
    gear.guard("b")(lambda: "b")
    guarded = gear.guard("a", fallback="b")(lambda: "a")
    with gear.session(max_calls=5) as session:
        for tool in ("a", "a", "b", "b"):
            fail(gear, tool)
        assert guarded() == "a"
        assert session.status().calls == 5
        with pytest.raises(SessionExhaustedError):
            guarded()
