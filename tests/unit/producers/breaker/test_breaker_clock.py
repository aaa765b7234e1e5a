"""A clock may go backwards a little, and one corrupt instant in the far future must not hold a circuit there."""

from __future__ import annotations

import pytest

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear.breaker.core import MAX_BACK_S
from switchgear_schemas.policy import BreakerPolicy

BAD = Result(ResultKind.FAILURE, reporter="a")
YEAR = 366 * 86_400.0
T0 = 1_700_000_000.0
POLICY = BreakerPolicy(failure_count=3, sliding_window_size=60, wait_duration_in_open_state_s=60)


def test_a_result_that_is_a_little_late_counts_at_the_latest_instant():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + 100, BAD)
    breaker.record(T0 + 100 - MAX_BACK_S, BAD)
    assert breaker.record(T0 + 100, BAD).at == T0 + 100


def test_one_instant_in_the_far_future_does_not_stop_the_window():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + YEAR, BAD)
    for second in range(2):
        breaker.record(T0 + second, BAD)
    assert breaker.counts(T0 + 1).failed == 2
    assert breaker.counts(T0 + 120).failed == 0
    assert breaker.last_seen == T0 + 1


@pytest.mark.parametrize(
    "window", [{}, {"sliding_window_panes": 1}, {"sliding_window_type": "count", "minimum_reporters": 2}]
)
def test_a_circuit_opened_in_the_far_future_waits_no_longer_than_any_other(window):
    breaker = Breaker("t", POLICY.model_copy(update=window), T0)
    for _ in range(3):
        breaker.record(T0 + YEAR, BAD)
    assert breaker.state == "open"
    assert breaker.advance(T0) is None
    assert breaker.retry_after_s(T0) == pytest.approx(60)
    assert isinstance(breaker.try_acquire(T0 + 59), BreakerRejection)
    permit = breaker.try_acquire(T0 + 60)
    assert isinstance(permit, BreakerPermit)
    assert breaker.record(T0 + 61, Result(), permit).state == "closed"


def test_probes_handed_out_in_the_far_future_expire_by_the_true_clock():
    breaker = Breaker("t", POLICY, T0)
    for _ in range(3):
        breaker.record(T0, BAD)
    breaker.request_lease(T0 + YEAR, "a")
    assert breaker.advance(T0 + 100) is None
    assert [lease.expires_at for lease in breaker.leases] == [T0 + 130]
    assert breaker.advance(T0 + 130).state == "open"


def test_an_open_until_that_was_set_at_an_honest_instant_stays():
    breaker = Breaker("t", POLICY, T0)
    breaker.command("force_open", T0, actor="ana", until=T0 + 2 * YEAR)
    breaker.record(T0 + YEAR, BAD)
    breaker.advance(T0 + 5)
    assert breaker.open_until == T0 + 2 * YEAR


def test_a_retry_after_heard_in_the_far_future_is_forgotten():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + YEAR, Result(ResultKind.FAILURE, retry_after_s=300.0))
    for _ in range(3):
        transition = breaker.record(T0 + 1, BAD)
    assert transition.open_until == T0 + 61


def test_after_going_back_a_snapshot_restores_to_the_same():
    breaker = Breaker("t", POLICY, T0)
    breaker.record(T0 + YEAR, BAD)
    breaker.record(T0, BAD)
    assert Breaker.restore(breaker.snapshot(), POLICY).snapshot() == breaker.snapshot()
