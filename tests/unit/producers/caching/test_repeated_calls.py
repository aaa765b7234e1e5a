"""The very same call, again and again in one session, is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.caching.repeated_calls import PANES, DuplicateWatch
from switchgear_schemas.errors import SettingsError
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock):
    return DuplicateWatch(window_s=300, clock=clock)


def test_the_first_call_is_one_and_each_repetition_one_more(watch):
    assert [watch.noted("s", "search", "k") for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("other", [("t", "search", "k"), ("s", "fetch", "k"), ("s", "search", "j")])
def test_another_session_tool_or_parameter_is_another_call(watch, other):
    watch.noted("s", "search", "k")
    assert watch.noted(*other) == 1


def test_what_is_called_between_does_not_hide_a_loop(watch):
    counts = [watch.noted("s", tool, "k") for _ in range(4) for tool in ("a", "b")]
    assert counts == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_slow_poll_is_no_loop(watch, clock):
    counts = []
    for _ in range(50):
        counts.append(watch.noted("s", "status", "k"))
        clock.now += 240
    assert max(counts) <= 2


def test_a_call_is_forgotten_after_the_window(watch, clock):
    for _ in range(9):
        watch.noted("s", "search", "k")
    clock.now += 301
    assert watch.noted("s", "search", "k") == 1


def test_a_very_long_pause_is_no_trouble(watch, clock):
    watch.noted("s", "search", "k")
    clock.now += 1e9
    assert watch.noted("s", "search", "k") == 1


def test_a_clock_that_goes_back_loses_nothing(watch, clock):
    watch.noted("s", "search", "k")
    clock.now -= 500
    assert watch.noted("s", "search", "k") == 2


def test_the_call_made_longest_ago_is_forgotten_first(clock):
    watch = DuplicateWatch(limit=2, clock=clock)
    watch.noted("s", "a", "k")
    watch.noted("s", "b", "k")
    watch.noted("s", "a", "k")
    watch.noted("s", "c", "k")
    assert len(watch) == 2
    assert watch.noted("s", "a", "k") == 3
    assert watch.noted("s", "b", "k") == 1


def test_an_ended_session_is_forgotten_alone(watch):
    watch.noted("s", "search", "k")
    watch.noted("t", "search", "k")
    watch.forget("s")
    assert watch.noted("s", "search", "k") == 1
    assert watch.noted("t", "search", "k") == 2


@given(st.lists(st.floats(0, 200, allow_nan=False), max_size=80))
def test_the_count_lies_between_the_window_and_a_tenth_less(waits):
    clock = Clock()
    watch = DuplicateWatch(window_s=100, clock=clock)
    made = []
    for wait in waits:
        clock.now += wait
        made.append(clock.now)
        count = watch.noted("s", "search", "k")
        surely = sum(clock.now - one <= 100 - 2 * 100 / PANES for one in made)
        possibly = sum(clock.now - one <= 100 for one in made)
        assert max(1, surely) <= count <= possibly


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("limit", wrong) for wrong in (0, 2.5, True, "5", None)),
        *(("window_s", wrong) for wrong in (0, float("nan"), float("inf"), 10**400, "5", None, True)),
        ("clock", 5),
    ],
)
def test_an_argument_that_is_impossible_is_named(name, wrong):
    with pytest.raises(SettingsError, match=name):
        DuplicateWatch(**{"clock": Clock(), name: wrong})


def test_a_call_that_is_taken_back_was_none(watch, clock):
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


def test_forgetting_a_session_leaves_the_others(watch):
    for session in ("a", "b"):
        for tool in ("t", "u"):
            watch.noted(session, tool, "k")
    watch.forget("a")
    watch.forget("a")
    assert len(watch) == 2
    assert [watch.noted(session, "t", "k") for session in ("a", "b")] == [1, 2]


def test_what_was_pushed_out_is_forgotten_with_its_session(clock):
    small = DuplicateWatch(limit=2, clock=clock)
    for number in range(100):
        small.noted(f"s-{number}", "t", "k")
    for number in range(100):
        small.forget(f"s-{number}")
    assert (len(small), small._sessions) == (0, {})
