"""A limit is learned from what a tool accepts while it refuses the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.pacing.limit import CUT, DEPTH, LEAST_GRANTED, LEAST_RATE, Limit, Observed
from switchgear_schemas.pacing import StatedLimit, read_limit

START = 1_800_000_000.0


def new(stated: StatedLimit | None = None) -> Limit:
    found = Limit(START, START)
    found.advance(START, stated)
    return found


def call(
    limit: Limit, at: float, *, limited: bool = False, wait_s: float | None = None, asked: int = 1, **fields: Any
) -> None:
    limit.add(START + at, None, Observed(asked=asked, limited=limited, wait_s=wait_s, **fields))


def play(limit: Limit, begin: float, end: float, *, offered: float, quota: float) -> Iterator[tuple[float, bool]]:
    """Offer calls to a tool that takes ``quota`` a second by a bucket of half a second, or of two calls. Yield each with whether it was taken."""
    tokens, at, most = 0.0, begin, max(2.0, quota / 2)
    while at < end:
        taken = tokens >= 1
        tokens -= taken
        call(limit, at, limited=not taken)
        yield at, taken
        tokens = min(most, tokens + quota / offered)
        at += 1 / offered


def test_nothing_is_known_before_the_first_429():
    limit = new()
    for number in range(100):
        call(limit, number / 10)
    assert limit.rate is None
    assert limit.granted is None
    assert limit.forgettable()


def test_the_first_429_after_enough_calls_is_a_measurement():
    limit = new()
    list(play(limit, 0, 20, offered=30, quota=10))
    assert limit.rate == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("quota", [1, 5, 50, 400])
@pytest.mark.parametrize("excess", [1.3, 4])
def test_the_learned_rate_is_within_a_tenth_of_the_quota_after_thirty_seconds(quota, excess):
    limit = new()
    list(play(limit, 0, 30, offered=quota * excess, quota=quota))
    assert limit.rate == pytest.approx(quota, rel=0.1)


def test_a_slow_quota_takes_longer():
    limit = new()
    list(play(limit, 0, 120, offered=2, quota=0.2))
    assert limit.rate == pytest.approx(0.2, rel=0.1)


def test_a_quota_that_falls_to_a_fifth_is_found_within_thirty_seconds():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    list(play(limit, 20, 50, offered=100, quota=10))
    assert limit.rate == pytest.approx(10, rel=0.1)


def test_a_quota_that_doubles_is_found_within_thirty_seconds_if_the_rate_is_used():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    at = 20.0
    while at < 50:
        at += 1 / limit.rate
        call(limit, at)
    assert limit.rate >= 90


def test_a_rate_that_nobody_uses_does_not_grow():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    for number in range(300):
        call(limit, 20 + number / 5)
        if number == 30:
            learned = limit.rate
    assert limit.rate == learned


def test_a_wait_to_the_end_of_a_period_tells_the_quota_of_a_fixed_window():
    limit = new()
    for number in range(100):
        call(limit, number / 10)
    call(limit, 10, limited=True, wait_s=50)
    assert limit.rate == pytest.approx(CUT * 100 / 60)
    assert limit.period_s == pytest.approx(60)
    assert limit.paused_until == pytest.approx(START + 60)


def test_slow_calls_before_the_period_of_the_first_429_say_nothing_about_it():
    limit = new()
    for number in range(80):  # forty minutes of a call each 30 s
        call(limit, 30 * number)
    for number in range(100):
        call(limit, 2_400 + number / 3)
    call(limit, 2_433.4, limited=True, wait_s=26.6)
    assert limit.rate is not None
    assert 0.6 * 100 / 60 < limit.rate < 1.1 * 100 / 60
    assert 60 <= limit.period_s <= 100


def test_a_long_period_is_counted_from_its_begin():
    limit = new()
    for number in range(900):
        call(limit, number / 2)
    call(limit, 450, limited=True, wait_s=450)
    assert limit.rate == pytest.approx(CUT * 900 / 900)
    assert limit.period_s == pytest.approx(900)


def test_the_429s_of_calls_under_way_cut_once():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    learned, cut_at = limit.rate, limit.cut_at
    for number in range(100):
        call(limit, cut_at - START + number / 100, limited=True)
    assert limit.rate == learned


def test_a_tool_that_takes_nothing_is_asked_once_a_minute():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    for number in range(800):
        call(limit, 20 + number / 10, limited=True)
    assert limit.rate == LEAST_RATE


def test_a_success_that_began_after_the_429_ends_the_pause():
    limit = new()
    call(limit, 0)
    call(limit, 1, limited=True, wait_s=100)
    call(limit, 1.5, duration_s=0.6)  # it began before
    assert limit.paused_until == START + 101
    call(limit, 3, duration_s=1.0)
    assert limit.paused_until == START + 3


def test_a_call_without_an_answer_does_not_show_that_the_tool_takes_calls():
    limit = new()
    call(limit, 0)
    call(limit, 1, limited=True, wait_s=100)
    call(limit, 3, duration_s=1.0, answered=False)
    assert limit.paused_until == START + 101


def test_a_limit_without_a_429_for_an_hour_is_forgotten():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    call(limit, 3_700)
    assert limit.rate is None
    assert limit.forgettable()


def test_a_stated_rate_holds_whatever_the_tool_says():
    stated = StatedLimit(100, 60.0)
    limit = new(stated)
    assert (limit.rate, limit.period_s) == (100 / 60, 60)
    limit.add(START + 1, stated, Observed(limited=True, wait_s=30))
    assert limit.rate == 100 / 60
    assert limit.paused_until == START + 31


def test_the_fleet_pays_back_what_it_called_too_much():
    stated = StatedLimit(100, 10.0)
    limit = new(stated)
    for _ in range(55):
        limit.add(START, stated, Observed())
    assert limit.granted == pytest.approx(LEAST_GRANTED * 10)
    limit.advance(START + 4.5, stated)
    assert limit.granted == pytest.approx(10 * (1 - 5 / 20))
    limit.advance(START + 60, stated)
    assert limit.granted == 10
    assert limit.level == DEPTH * 100


def test_calls_are_summed_over_whole_seconds():
    limit = new()
    for at, asked in ((0.5, 3), (1.2, 1), (5.9, 4), (6.1, 7)):
        call(limit, at, asked=asked)
    assert limit.sums(int(START) + 6).asked == 5
    assert (limit.sums(int(START) + 5).asked, limit.sums(int(START) + 5).made) == (4, 2)


def test_waits_and_refusals_are_counted_beside_the_calls():
    limit = new()
    call(limit, 0.1, waited_ms=250)
    call(limit, 0.2, waited_ms=500)
    limit.add(START + 0.3, None, Observed(asked=7, made=False, refused=6))
    found = limit.sums(int(START) + 1)
    assert (found.asked, found.made, found.refused, found.waited, found.waited_ms) == (9, 2, 6, 2, 750)


def test_a_clock_that_was_ahead_leaves_the_rate():
    limit = new()
    list(play(limit, 0, 20, offered=100, quota=50))
    learned = limit.rate
    call(limit, -3_600)
    assert limit.rate == learned
    assert limit.clock == START - 3_600
    assert limit.paused_until <= limit.clock


EVENTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 0.3, 1.1, 4.0, 30.0, 4_000.0, -0.5, -100.0]), st.booleans(),
              st.sampled_from([None, 0.5, 3.0, 40.0, 1e9]), st.integers(0, 50)),
    max_size=60,
)  # fmt: skip


STATED = st.sampled_from([None, *map(read_limit, ("100/min", "1/h", "1/24h", "5/s", "999999999/s", "999999999/24h"))])


@given(EVENTS, STATED)
def test_whatever_comes_the_numbers_stay_possible_and_survive_the_row(events, stated):
    limit, at = new(stated), 0.0
    for step, limited, wait_s, asked in events:
        at = max(-START + 1, at + step)
        before = limit.rate
        limit.add(START + at, stated, Observed(asked=asked, limited=limited, wait_s=wait_s, duration_s=0.1))
        assert stated is None or before in (None, stated.rate)
        assert limit.granted is None or LEAST_GRANTED * limit.rate <= limit.granted <= limit.rate
        copy = msgspec.msgpack.decode(msgspec.msgpack.encode(limit), type=Limit)
        assert copy == limit
        limit = copy
        assert len(limit.seconds) <= 61
        assert all(a.at < b.at for a, b in pairwise(limit.seconds))
