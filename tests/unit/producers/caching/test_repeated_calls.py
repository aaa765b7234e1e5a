"""Equal calls of one session are counted within a window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.caching.repeated_calls import MOST_COUNTED, DuplicateCounter
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counter(clock):
    return DuplicateCounter(window_s=300, clock=clock)


def test_counts_the_first_call_as_one_and_each_repetition_as_one_more(counter):
    assert [counter.noted("s", "search", "k") for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("other", [("t", "search", "k"), ("s", "fetch", "k"), ("s", "search", "j")])
def test_call_of_another_session_tool_or_parameter_is_another_call(counter, other):
    counter.noted("s", "search", "k")
    assert counter.noted(*other) == 1


def test_calls_in_between_do_not_hide_a_loop(counter):
    counts = [counter.noted("s", tool, "k") for _ in range(4) for tool in ("a", "b")]
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4]


def test_slow_poll_is_not_a_loop(counter, clock):
    counts = []
    for _ in range(50):
        counts.append(counter.noted("s", "status", "k"))
        clock.now += 240
    assert max(counts) <= 2


def test_call_does_not_count_after_the_window(counter, clock):
    for _ in range(9):
        counter.noted("s", "search", "k")
    clock.now += 301
    assert counter.noted("s", "search", "k") == 1


def test_counts_from_one_after_a_very_long_pause(counter, clock):
    counter.noted("s", "search", "k")
    clock.now += 1e9
    assert counter.noted("s", "search", "k") == 1


def test_clock_that_goes_back_loses_no_count(counter, clock):
    counter.noted("s", "search", "k")
    clock.now -= 500
    assert counter.noted("s", "search", "k") == 2


def test_forgets_the_call_made_longest_ago_first(clock):
    counter = DuplicateCounter(limit=2, clock=clock)
    counter.noted("s", "a", "k")
    counter.noted("s", "b", "k")
    counter.noted("s", "a", "k")
    counter.noted("s", "c", "k")
    assert len(counter) == 2
    assert counter.noted("s", "a", "k") == 3
    assert counter.noted("s", "b", "k") == 1


def test_forgets_an_ended_session_and_no_other(counter):
    counter.noted("s", "search", "k")
    counter.noted("t", "search", "k")
    counter.forget("s")
    assert counter.noted("s", "search", "k") == 1
    assert counter.noted("t", "search", "k") == 2


@pytest.mark.slow
@given(st.lists(st.floats(0, 200, allow_nan=False), max_size=80))
def test_counts_exactly_the_calls_within_the_window(waits):
    clock = Clock()
    counter = DuplicateCounter(window_s=100, clock=clock)
    made = []
    for wait in waits:
        clock.now += wait
        made.append(clock.now)
        count = counter.noted("s", "search", "k")
        assert count == sum(one > clock.now - 100 for one in made)


def test_counts_at_most_a_thousand_calls(counter):
    counts = [counter.noted("s", "search", "k") for _ in range(MOST_COUNTED + 5)]
    assert counts[-6:] == [MOST_COUNTED] * 6


def test_call_that_is_taken_back_does_not_count(counter, clock):
    for _ in range(2):
        counter.noted("s", "search", "k")
    clock.now += 100
    counter.noted("s", "search", "k")
    counter.taken_back("s", "search", "k")
    assert counter.noted("s", "search", "k") == 3
    for _ in range(9):
        counter.taken_back("s", "search", "k")
    assert len(counter) == 0
    counter.taken_back("s", "search", "never noted")


def test_forgets_a_session_twice_without_effect_on_others(counter):
    for session in ("a", "b"):
        for tool in ("t", "u"):
            counter.noted(session, tool, "k")
    counter.forget("a")
    counter.forget("a")
    assert len(counter) == 2
    assert [counter.noted(session, "t", "k") for session in ("a", "b")] == [1, 2]
