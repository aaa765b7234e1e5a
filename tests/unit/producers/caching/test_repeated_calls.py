"""Equal calls of one session are counted within a window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.caching.repeated_calls import MOST_COUNTED, DuplicateWatch
from switchgear_schemas.errors import SettingsError
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock):
    return DuplicateWatch(window_s=300, clock=clock)


def test_counts_the_first_call_as_one_and_each_repetition_as_one_more(watch):
    assert [watch.noted("s", "search", "k") for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("other", [("t", "search", "k"), ("s", "fetch", "k"), ("s", "search", "j")])
def test_call_of_another_session_tool_or_parameter_is_another_call(watch, other):
    watch.noted("s", "search", "k")
    assert watch.noted(*other) == 1


def test_calls_in_between_do_not_hide_a_loop(watch):
    counts = [watch.noted("s", tool, "k") for _ in range(4) for tool in ("a", "b")]
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4]


def test_slow_poll_is_not_a_loop(watch, clock):
    counts = []
    for _ in range(50):
        counts.append(watch.noted("s", "status", "k"))
        clock.now += 240
    assert max(counts) <= 2


def test_call_does_not_count_after_the_window(watch, clock):
    for _ in range(9):
        watch.noted("s", "search", "k")
    clock.now += 301
    assert watch.noted("s", "search", "k") == 1


def test_counts_from_one_after_a_very_long_pause(watch, clock):
    watch.noted("s", "search", "k")
    clock.now += 1e9
    assert watch.noted("s", "search", "k") == 1


def test_clock_that_goes_back_loses_no_count(watch, clock):
    watch.noted("s", "search", "k")
    clock.now -= 500
    assert watch.noted("s", "search", "k") == 2


def test_forgets_the_call_made_longest_ago_first(clock):
    watch = DuplicateWatch(limit=2, clock=clock)
    watch.noted("s", "a", "k")
    watch.noted("s", "b", "k")
    watch.noted("s", "a", "k")
    watch.noted("s", "c", "k")
    assert len(watch) == 2
    assert watch.noted("s", "a", "k") == 3
    assert watch.noted("s", "b", "k") == 1


def test_forgets_an_ended_session_and_no_other(watch):
    watch.noted("s", "search", "k")
    watch.noted("t", "search", "k")
    watch.forget("s")
    assert watch.noted("s", "search", "k") == 1
    assert watch.noted("t", "search", "k") == 2


@given(st.lists(st.floats(0, 200, allow_nan=False), max_size=80))
def test_counts_exactly_the_calls_within_the_window(waits):
    clock = Clock()
    watch = DuplicateWatch(window_s=100, clock=clock)
    made = []
    for wait in waits:
        clock.now += wait
        made.append(clock.now)
        count = watch.noted("s", "search", "k")
        assert count == sum(one > clock.now - 100 for one in made)


def test_counts_at_most_a_thousand_calls(watch):
    counts = [watch.noted("s", "search", "k") for _ in range(MOST_COUNTED + 5)]
    assert counts[-6:] == [MOST_COUNTED] * 6


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("limit", wrong) for wrong in (0, 2.5, True, "5", None)),
        *(("window_s", wrong) for wrong in (0, float("nan"), float("inf"), 10**400, "5", None, True)),
    ],
)
def test_names_an_argument_that_is_out_of_range(name, wrong):
    with pytest.raises(SettingsError, match=name):
        DuplicateWatch(**{"clock": Clock(), name: wrong})


def test_call_that_is_taken_back_does_not_count(watch, clock):
    for _ in range(2):
        watch.noted("s", "search", "k")
    clock.now += 100
    watch.noted("s", "search", "k")
    watch.taken_back("s", "search", "k")
    assert watch.noted("s", "search", "k") == 3
    for _ in range(9):
        watch.taken_back("s", "search", "k")
    assert len(watch) == 0
    watch.taken_back("s", "search", "never noted")


def test_forgets_a_session_twice_without_effect_on_others(watch):
    for session in ("a", "b"):
        for tool in ("t", "u"):
            watch.noted(session, tool, "k")
    watch.forget("a")
    watch.forget("a")
    assert len(watch) == 2
    assert [watch.noted(session, "t", "k") for session in ("a", "b")] == [1, 2]
