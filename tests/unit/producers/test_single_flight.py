"""Identical calls of threads at the same time are made once."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from switchgear.single_flight import SingleFlight
from switchgear_schemas.errors import SettingsError
from tests.support.flights import LIMIT, ended, followers, in_threads, until


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


def test_other_keys_fly_alone(flights):
    assert [flights.do(str(number), lambda number=number: number).value for number in range(3)] == [0, 1, 2]


def test_one_call_after_another_is_made_each_time(flights):
    made = []
    for _ in range(3):
        assert flights.do("k", lambda: made.append(1)).leader
    assert len(made) == 3


def test_an_exception_is_shared(flights):
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


def test_an_interrupted_leader_hands_over(flights):
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


def test_a_follower_waits_no_longer_than_its_limit_and_then_calls_itself():
    flights = SingleFlight(wait_s=0.05)
    started, release = threading.Event(), threading.Event()

    def hung():
        started.set()
        release.wait(LIMIT)

    threads = in_threads(1, lambda _number: flights.do("k", hung))
    started.wait(LIMIT)
    assert flights.do("k", lambda: "mine") == ("mine", True)
    assert flights.do("k", lambda: "at once") == ("at once", True)  # nobody waits for the hung one again
    release.set()
    ended(threads)
    assert len(flights) == 0


def test_a_call_within_its_own_flight_does_not_wait_for_itself(flights):
    assert flights.do("k", lambda: flights.do("k", lambda: "inner").value + " and outer") == ("inner and outer", True)


def test_two_single_flights_are_strangers(flights):
    other = SingleFlight()
    assert flights.do("k", lambda: other.do("k", lambda: "inner")).value == ("inner", True)
    assert len(other) == 0


# -- what remains -----------------------------------------------------------------------------------------------------


def test_neither_result_nor_error_is_kept(flights):
    class Answer:
        pass

    kept = weakref.ref(flights.do("k", Answer).value)
    gc.collect()
    assert kept() is None


def test_a_wait_that_is_none_is_told():
    with pytest.raises(SettingsError, match="wait_s"):
        SingleFlight(wait_s=0)
