"""A clock may go backwards."""

from __future__ import annotations

import msgspec

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy

BAD = Result(ResultKind.FAILURE, reporter="a")
T0 = 1_700_000_000.0
POLICY = BreakerPolicy(failure_count=3, sliding_window_size=60, wait_duration_in_open_state_s=60)


def test_a_result_that_is_late_counts_at_the_latest_instant():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + 100, BAD)
    breaker.record(T0, BAD)
    assert breaker.record(T0 + 100, BAD).at == T0 + 100


def opened(at, **result):
    breaker = Breaker("t", POLICY, T0)
    for _ in range(3):
        breaker.record(at, msgspec.structs.replace(BAD, **result))
    assert breaker.state == "open"
    return breaker


def test_a_breaker_goes_back_with_a_clock_that_was_ahead_and_its_wait_with_it():
    breaker = opened(T0 + 3600)
    assert breaker.set_back(T0 + 10)
    assert (breaker.clock, breaker.changed_at, breaker.open_until) == (T0 + 10, T0 + 10, T0 + 70)
    assert breaker.try_acquire(T0 + 69).retry_after_s == 1
    assert Breaker.restore(breaker.snapshot(), POLICY).open_until == T0 + 70


def test_a_breaker_keeps_a_wait_that_began_before_the_clock_was_ahead():
    breaker = opened(T0)
    breaker.counts(T0 + 30)
    breaker.clock = T0 + 3600  # a refusal in the wrong time
    assert not breaker.set_back(T0 + 30)
    assert (breaker.clock, breaker.changed_at, breaker.open_until) == (T0 + 30, T0, T0 + 60)


def test_a_breaker_whose_clock_was_not_ahead_changes_nothing():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + 10, BAD)
    before = breaker.snapshot()
    assert not breaker.set_back(T0 + 10)
    assert not breaker.set_back(T0 + 20)
    assert breaker.snapshot() == before


def test_a_breaker_that_goes_back_forgets_what_it_counted_in_the_wrong_time():
    breaker = Breaker("t", POLICY, T0)
    for _ in range(2):
        breaker.record(T0 + 3600, BAD)
    breaker.set_back(T0)
    assert breaker.record(T0 + 1, BAD) is None
    assert breaker.counts(T0 + 1).failed == 1


def test_a_wait_that_the_tool_asked_for_in_the_wrong_time_ends_in_the_right_one():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + 3600, msgspec.structs.replace(BAD, retry_after_s=30))
    breaker.set_back(T0)
    for _ in range(3):
        breaker.record(T0 + 1, BAD)
    assert breaker.open_until == T0 + 61, "and not an hour later"
