"""Identical calls of threads at the same time are made once."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from switchgear.arguments import OptionError
from switchgear.caching.single_flight import SingleFlight
from tests.support.flights import LIMIT, ended, followers, in_threads
from tests.support.waiting import until


class DownError(Exception):
    pass


@pytest.fixture
def flights():
    return SingleFlight(wait_s=LIMIT)


# -- threads ----------------------------------------------------------------------------------------------------------


def test_threads_share_one_execution(flights):
    made, found, release = [], [], threading.Event()

    def call():
        made.append(1)
        release.wait(LIMIT)
        return object()

    threads = in_threads(20, lambda _number: found.append(flights.do("k", call)))
    until(lambda: followers(flights) == 19)
    release.set()
    ended(threads)
    assert len(made) == 1
    assert len({id(shared.value) for shared in found}) == 1
    assert sorted(shared.leader for shared in found) == [False] * 19 + [True]
    assert len(flights) == 0


def test_calls_with_different_keys_are_each_made(flights):
    assert [flights.do(str(number), lambda number=number: number).value for number in range(3)] == [0, 1, 2]


def test_a_call_after_the_first_has_ended_is_made_again(flights):
    made = []
    for _ in range(3):
        assert flights.do("k", lambda: made.append(1)).leader
    assert len(made) == 3


def test_all_callers_get_the_exception_of_the_shared_call(flights):
    seen, release = [], threading.Event()

    def call():
        release.wait(LIMIT)
        raise DownError("once")

    def work(_number):
        try:
            flights.do("k", call)
        except DownError as error:
            seen.append(error)

    threads = in_threads(5, work)
    until(lambda: followers(flights) == 4)
    release.set()
    ended(threads)
    assert len(seen) == 5
    assert len({id(error) for error in seen}) == 1


def test_if_the_leader_is_interrupted_a_follower_makes_the_call(flights):
    made, found, release = [], [], threading.Event()

    def call():
        made.append(1)
        release.wait(LIMIT)
        if len(made) == 1:
            raise KeyboardInterrupt
        return "landed"

    def work(_number):
        try:
            found.append(flights.do("k", call))
        except KeyboardInterrupt:
            found.append("interrupted")

    threads = in_threads(6, work)
    until(lambda: followers(flights) == 5)
    release.set()
    ended(threads)
    assert found.count("interrupted") == 1
    assert [shared.value for shared in found if shared != "interrupted"] == ["landed"] * 5
    assert len(flights) == 0


def test_a_follower_that_waited_too_long_makes_the_call_itself():
    flights = SingleFlight(wait_s=0.05)
    started, release = threading.Event(), threading.Event()

    def hung():
        started.set()
        release.wait(LIMIT)

    threads = in_threads(1, lambda _number: flights.do("k", hung))
    started.wait(LIMIT)
    assert flights.do("k", lambda: "mine") == ("mine", True)
    assert flights.do("k", lambda: "at once") == ("at once", True)  # no caller waits for the hung one again
    release.set()
    ended(threads)
    assert len(flights) == 0


@pytest.mark.slow
def test_of_followers_that_waited_too_long_one_makes_the_call_and_the_others_wait_for_it():
    flights, made, found = SingleFlight(wait_s=0.2), [], []
    started, release = threading.Event(), threading.Event()

    def call():
        made.append(1)
        if len(made) == 1:
            started.set()
            release.wait(LIMIT)
            return "late"
        until(lambda: followers(flights) == 4)
        return "again"

    leader = in_threads(1, lambda _number: found.append(flights.do("k", call)))
    started.wait(LIMIT)
    threads = in_threads(5, lambda _number: found.append(flights.do("k", call)))
    ended(threads)
    assert sorted(found) == [("again", False)] * 4 + [("again", True)]
    assert len(made) == 2
    release.set()
    ended(leader)
    assert len(flights) == 0


def test_followers_wait_longer_for_a_call_that_may_take_longer():
    flights, found = SingleFlight(wait_s=0.01), []
    release = threading.Event()
    threads = in_threads(3, lambda _number: found.append(flights.do("k", lambda: release.wait(LIMIT), wait_s=LIMIT)))
    until(lambda: followers(flights) == 2)
    threads[0].join(0.05)
    release.set()
    ended(threads)
    assert sum(shared.leader for shared in found) == 1


def test_each_caller_makes_a_call_whose_result_serves_one_caller(flights):
    found, release = [], threading.Event()

    def call():
        release.wait(LIMIT)
        return iter("x")

    threads = in_threads(4, lambda _number: found.append(flights.do("k", call, serves=lambda _value: False)))
    until(lambda: followers(flights) == 3)
    release.set()
    ended(threads)
    assert [list(shared.value) for shared in found] == [["x"]] * 4
    assert len(flights) == 0


def test_two_single_flight_objects_share_nothing(flights):
    other = SingleFlight()
    assert flights.do("k", lambda: other.do("k", lambda: "inner")).value == ("inner", True)
    assert len(other) == 0


# -- what remains -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_single_flight_keeps_no_result(flights):
    class Answer:
        pass

    kept = weakref.ref(flights.do("k", Answer).value)
    gc.collect()
    assert kept() is None


def test_single_flight_rejects_an_impossible_wait():
    for wait_s in (0, "x", None, True, float("nan")):
        with pytest.raises(OptionError, match="wait_s"):
            SingleFlight(wait_s=wait_s)
