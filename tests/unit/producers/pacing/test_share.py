"""The shares of all processes add up to what is granted, and a bucket never lets more calls through than its share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.pacing.share import CREDIT, FLOOR, Bucket, credit_of, share_of

DEMANDS = st.lists(st.floats(0, 1_000), min_size=1, max_size=40)


@given(DEMANDS, st.floats(0.01, 10_000))
def test_the_shares_of_all_add_up_to_what_is_granted(demands, granted):
    asked = sum(demands)
    shares = [share_of(granted, asked, own, len(demands)) for own in demands]
    assert granted * 0.999 <= sum(shares) <= granted * (1.001 + FLOOR)


@given(DEMANDS, st.floats(0.01, 10_000))
def test_below_the_limit_everyone_gets_at_least_what_it_asked_for(demands, granted):
    asked = sum(demands)
    if asked < granted:
        assert all(share_of(granted, asked, own, len(demands)) >= own for own in demands)


def test_above_the_limit_shares_are_as_the_demands():
    assert share_of(10, 40, 30, 2) == pytest.approx(7.5)
    assert share_of(10, 40, 10, 2) == pytest.approx(2.5)


def test_a_process_that_was_not_seen_has_a_small_share():
    assert share_of(10, 40, 0, 5) == pytest.approx(FLOOR * 2)


def test_one_process_has_all():
    assert share_of(10, 3, 3, 1) == 10
    assert share_of(10, 30, 30, 1) == 10


def test_many_newcomers_may_not_call_at_once_while_the_limit_is_used_up():
    assert credit_of(10, 40, 1_000, 0, 60, recent=False) == pytest.approx(CREDIT * 600 / 1_000)
    assert credit_of(10, 4, 1_000, 0, 60, recent=False) == 1
    assert credit_of(10, 40, 1_000, 0, 60, recent=True) == 1


def test_a_process_may_make_a_part_of_a_period_s_calls_at_once():
    assert credit_of(10, 40, 1, 10, 60, recent=True) == pytest.approx(1 + CREDIT * 600)


def test_calls_go_one_after_the_other_by_the_rate():
    bucket = Bucket(0.0, 2.0, 1.0)
    places = [bucket.take(0.0) for _ in range(4)]
    assert [bucket.wait_s(0.0, place) for place in places] == [0.0, 0.5, 1.0, 1.5]
    assert [bucket.wait_s(1.0, place) for place in places] == [0.0, 0.0, 0.0, 0.5]


def test_those_behind_a_place_that_is_given_back_move_up():
    bucket = Bucket(0.0, 1.0, 0.0)
    first, second, third = (bucket.take(0.0) for _ in range(3))
    bucket.leave(second)
    assert (bucket.wait_s(0.0, first), bucket.wait_s(0.0, third)) == (1.0, 2.0)


def test_a_call_that_went_and_is_not_made_leaves_its_turn_to_the_next():
    bucket = Bucket(0.0, 1.0, 1.0)
    first, second = bucket.take(0.0), bucket.take(0.0)
    assert (bucket.wait_s(0.0, first), bucket.wait_s(0.0, second)) == (0.0, 1.0)
    bucket.leave(first)
    assert bucket.wait_s(0.0, second) == 0.0


def test_a_refused_call_takes_nothing_from_those_that_wait():
    bucket = Bucket(0.0, 1.0, 1.0)
    waiting = [bucket.take(0.0) for _ in range(3)]
    assert [bucket.wait_s(0.0, place) for place in waiting] == [0.0, 1.0, 2.0]
    for _ in range(100):
        bucket.leave(bucket.take(0.0))
    assert bucket.wait_s(0.0, waiting[-1]) == 2.0


def test_a_pause_holds_every_call_and_earns_nothing():
    bucket = Bucket(0.0, 2.0, 1.0)
    bucket.set_rate(0.0, 2.0, 1.0, 10.0)
    first, second = bucket.take(1.0), bucket.take(1.0)
    assert (bucket.wait_s(1.0, first), bucket.wait_s(1.0, second)) == (9.0, 9.5)
    assert (bucket.wait_s(10.0, first), bucket.wait_s(10.0, second)) == (0.0, 0.5)


def test_a_new_rate_holds_for_those_that_wait():
    bucket = Bucket(0.0, 0.1, 1.0)
    assert bucket.wait_s(0.0, bucket.take(0.0)) == 0.0
    place = bucket.take(0.0)
    assert bucket.wait_s(0.0, place) == 10.0
    bucket.set_rate(1.0, 10.0, 1.0, 0.0)
    assert bucket.wait_s(1.0, place) == pytest.approx(0.09)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.floats(0, 3)),
        st.tuples(st.just("rate"), st.floats(0.01, 20)),
        st.tuples(st.just("pass"), st.floats(0, 30)),
        st.tuples(st.just("leave"), st.floats(0, 1)),
    ),
    max_size=80,
)


@given(MOVES, st.floats(0.05, 3))
def test_no_time_has_more_calls_than_the_rate_and_the_credit(moves, credit):
    now, bucket = 0.0, Bucket(0.0, 1.0, credit)
    waiting: list[int] = []
    earned, gone = credit, 0
    for kind, value in moves:
        if kind == "pass":
            earned += bucket.rate * value
            now += value
        elif kind == "rate":
            bucket.set_rate(now, value, credit, 0.0)
        elif kind == "leave" and waiting:
            bucket.leave(waiting.pop(int(value * (len(waiting) - 1))))
        elif kind == "ask":
            place = bucket.take(now)
            if bucket.wait_s(now, place) > value:
                bucket.leave(place)
            else:
                waiting.append(place)
        left = [place for place in waiting if bucket.wait_s(now, place) > 0]
        gone += len(waiting) - len(left)
        waiting = left
        assert gone <= earned + 1e-6
