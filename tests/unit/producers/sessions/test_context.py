"""Sessions are left in any order, and count in those that they are entered within: here, not where they were made."""

from __future__ import annotations

import asyncio
import threading
import uuid

import pytest

from switchgear import Switchgear, SwitchgearError
from switchgear.sessions.context import entered, session_var


@pytest.fixture
def gear():
    return Switchgear.local()


def running():
    session = session_var.get()
    return None if session is None else session.session_id


def calls(*sessions):
    return [session.status().calls for session in sessions]


# -- left in any order ------------------------------------------------------------------------------------------------


def test_two_agents_as_generators_that_take_turns_leave_no_session_behind(gear):
    def agent(name):
        with gear.session(name):
            yield running()
            yield running()

    ana, bob = agent("ana"), agent("bob")
    assert [next(ana), next(bob)] == ["ana", "bob"]
    ana.close()
    assert running() == "bob", "the one that goes on"
    bob.close()
    assert (running(), list(entered())) == (None, [])


async def test_so_do_async_generators_of_one_task(gear):
    async def agent(name):
        async with gear.session(name):
            yield running()

    agents = [agent(name) for name in "abc"]
    assert [await anext(one) for one in agents] == ["a", "b", "c"]
    seen = []
    for one in (agents[1], agents[0], agents[2]):
        await one.aclose()
        seen.append(running())
    assert seen == ["c", "c", None]


def test_the_innermost_entry_of_a_session_entered_twice_is_left_first(gear):
    a, b = gear.session("a"), gear.session("b")
    a.__enter__()
    b.__enter__()
    a.__enter__()
    a.__exit__(None, None, None)
    assert [one.session_id for one in entered()] == ["b", "a"]
    a.__exit__(None, None, None)
    assert [one.session_id for one in entered()] == ["b"]
    b.__exit__(None, None, None)
    assert running() is None


async def test_what_a_task_leaves_is_left_for_that_task_alone(gear):
    with gear.session("a") as session:

        async def leave():
            session.__exit__(None, None, None)
            return running()

        assert await asyncio.create_task(leave()) is None
        assert running() == "a"


# -- counted in those around it -----------------------------------------------------------------------------------------


def test_a_session_counts_in_the_one_it_is_entered_within_wherever_it_was_made(gear):
    a, b = gear.session("a", max_calls=1), gear.session("b")
    with a, b:
        assert gear.try_acquire("t")
        refused = gear.try_acquire("t")
        assert refused.reason == b.exhausted == a.exhausted == "session a has made its 1 calls"
    assert calls(a, b) == [1, 1]


def test_a_session_made_within_another_and_entered_after_it_is_on_its_own(gear):
    with gear.session("a", max_calls=1) as a:
        assert gear.try_acquire("t")
        b = gear.session("b")
    with b:
        assert gear.try_acquire("t")
        assert b.exhausted is None
    assert calls(a, b) == [1, 1]


def test_each_place_has_its_own_session_around(gear):
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
        thread.join(10)
    assert calls(ana, bob, shared) == [2, 3, 5]
    assert [one.status().tokens for one in (ana, bob, shared)] == [20, 30, 50]


def test_a_permit_that_another_thread_reports_counts_where_it_was_taken(gear):
    with gear.session("a", max_failures=9) as a, gear.session("b") as b:
        permits = [gear.try_acquire("t") for _ in range(3)]

    def report():
        permits[0].success(output_tokens=5)
        permits[1].failure(ConnectionError("down"))
        permits[2].release()

    thread = threading.Thread(target=report)
    thread.start()
    thread.join(10)
    for session in (a, b):
        status = session.status()
        assert (status.calls, status.tokens, status.failures) == (2, 5, 1)


def test_a_session_within_itself_counts_once(gear):
    session = gear.session("a")
    with session, gear.session("b"), session:
        gear.try_acquire("t").success(output_tokens=3)
        session.spend(4)
    assert (session.status().calls, session.status().tokens) == (1, 7)


def test_a_refusal_of_the_outer_one_is_no_call_of_the_inner_ones(gear):
    with gear.session("a", max_calls=1) as a, gear.session("b") as b, gear.session("c") as c:
        gear.try_acquire("t")
        for _ in range(3):
            assert not gear.try_acquire("t")
    assert calls(a, b, c) == [1, 1, 1]


# -- several clients ------------------------------------------------------------------------------------------------------


def test_another_clients_session_within_is_no_way_past_the_limits(gear):
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
def test_an_impossible_id_is_told_by_its_name(gear, name, wrong):
    with pytest.raises(SwitchgearError, match=f"^The {name} of a session"):
        gear.session(**{name: wrong})


def test_an_empty_session_id_is_told_and_a_user_id_that_is_none(gear):
    with pytest.raises(SwitchgearError, match="not empty"):
        gear.session("")
    with pytest.raises(SwitchgearError, match="user_id"):
        gear.session("s-1", user_id=None)
    assert gear.session("s" * 256, user_id="").session_id == "s" * 256
