"""Nested sessions: entering and leaving in any order, and whose limits a call counts against."""

from __future__ import annotations

import asyncio
import threading
import uuid

import pytest

from switchgear import Switchgear, SwitchgearError
from switchgear.sessions import session_stack
from tests.support.limits import ANSWER_S


@pytest.fixture
def gear():
    return Switchgear.local()


def running():
    """The ids of the sessions that were entered here, innermost last."""
    return [session.session_id for session in session_stack.get() or ()]


def calls(*sessions):
    return [session.status().calls for session in sessions]


# -- left in any order ------------------------------------------------------------------------------------------------


def test_generators_that_take_turns_leave_their_sessions_in_any_order(gear):
    def agent(name):
        with gear.session(name):
            yield running()
            yield running()

    ana, bob = agent("ana"), agent("bob")
    assert [next(ana), next(bob)] == [["ana"], ["ana", "bob"]]
    ana.close()
    assert running() == ["bob"]
    bob.close()
    assert running() == []


async def test_async_generators_of_one_task_leave_their_sessions_in_any_order(gear):
    async def agent(name):
        async with gear.session(name):
            yield running()

    agents = [agent(name) for name in "abc"]
    assert [await anext(one) for one in agents] == [["a"], ["a", "b"], ["a", "b", "c"]]
    seen = []
    for one in (agents[1], agents[0], agents[2]):
        await one.aclose()
        seen.append(running())
    assert seen == [["a", "c"], ["c"], []]


def test_leaving_a_session_that_was_entered_twice_undoes_its_last_entry(gear):
    a, b = gear.session("a"), gear.session("b")
    a.__enter__()
    b.__enter__()
    a.__enter__()
    a.__exit__(None, None, None)
    assert running() == ["a", "b"]
    a.__exit__(None, None, None)
    assert running() == ["b"]
    b.__exit__(None, None, None)
    assert running() == []


async def test_a_session_that_a_task_leaves_stays_entered_in_its_parent_task(gear):
    with gear.session("a") as session:

        async def leave():
            session.__exit__(None, None, None)
            return running()

        assert await asyncio.create_task(leave()) == []
        assert running() == ["a"]


# -- counted in those around it -----------------------------------------------------------------------------------------


def test_calls_count_against_the_session_around_the_one_they_are_made_in(gear):
    a, b = gear.session("a", max_calls=1), gear.session("b")
    with a, b:
        assert gear.try_acquire("t")
        refused = gear.try_acquire("t")
        assert refused.reason == b.exhausted == a.exhausted == "session a has made its 1 calls"
    assert calls(a, b) == [1, 1]


def test_a_session_made_within_another_but_entered_after_it_counts_alone(gear):
    with gear.session("a", max_calls=1) as a:
        assert gear.try_acquire("t")
        b = gear.session("b")
    with b:
        assert gear.try_acquire("t")
        assert b.exhausted is None
    assert calls(a, b) == [1, 1]


def test_a_session_shared_by_threads_counts_in_the_session_around_it_in_each_thread(gear):
    shared = gear.session("shared")
    ana, bob = gear.session("ana"), gear.session("bob")

    def work(around, number):
        with around, shared:
            for _ in range(number):
                gear.try_acquire("t").success(output_tokens=10)

    threads = [threading.Thread(target=work, args=one) for one in ((ana, 2), (bob, 3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    assert calls(ana, bob, shared) == [2, 3, 5]
    assert [one.status().tokens for one in (ana, bob, shared)] == [20, 30, 50]


def test_a_permit_reported_by_another_thread_counts_in_the_sessions_it_was_taken_in(gear):
    with gear.session("a", max_failures=9) as a, gear.session("b") as b:
        permits = [gear.try_acquire("t") for _ in range(3)]

    def report():
        permits[0].success(output_tokens=5)
        permits[1].failure(ConnectionError("down"))
        permits[2].release()

    thread = threading.Thread(target=report)
    thread.start()
    thread.join(ANSWER_S)
    for session in (a, b):
        status = session.status()
        assert (status.calls, status.tokens, status.failures) == (2, 5, 1)


def test_a_session_entered_within_itself_counts_each_call_once(gear):
    session = gear.session("a")
    with session, gear.session("b"), session:
        gear.try_acquire("t").success(output_tokens=3)
        session.spend(4)
    assert (session.status().calls, session.status().tokens) == (1, 7)


def test_a_call_that_the_outer_session_refuses_is_not_counted_in_the_inner_ones(gear):
    with gear.session("a", max_calls=1) as a, gear.session("b") as b, gear.session("c") as c:
        gear.try_acquire("t")
        for _ in range(3):
            assert not gear.try_acquire("t")
    assert calls(a, b, c) == [1, 1, 1]


# -- several clients ------------------------------------------------------------------------------------------------------


def test_entering_another_clients_session_does_not_evade_the_limits(gear):
    other = Switchgear.local()
    with gear.session("a", max_calls=2) as a, other.session("b", max_calls=3) as b:
        assert [bool(gear.try_acquire("t")) for _ in range(4)] == [True, True, False, False]
        assert [bool(other.try_acquire("t")) for _ in range(4)] == [True, True, True, False]
        assert (gear.is_open("t"), other.is_open("t")) == (True, True)
        assert gear.notice() == other.notice() != ""
    assert calls(a, b) == [2, 3]


# -- what a session is made of ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["session_id", "user_id"])
@pytest.mark.parametrize("wrong", [42, uuid.uuid4(), b"s-1", "s" * 257, "s-\ud800", ["s"]])
def test_rejects_an_impossible_session_or_user_id_and_names_it(gear, name, wrong):
    with pytest.raises(SwitchgearError, match=f"^{name} must "):
        gear.session(**{name: wrong})


def test_rejects_an_empty_session_id_and_a_user_id_of_none(gear):
    with pytest.raises(SwitchgearError, match="session_id must have 1 to 256 characters"):
        gear.session("")
    with pytest.raises(SwitchgearError, match="user_id"):
        gear.session("s-1", user_id=None)
    assert gear.session("s" * 256, user_id="").session_id == "s" * 256
