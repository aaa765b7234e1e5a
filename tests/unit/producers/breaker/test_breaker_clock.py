"""A clock may go backwards."""

from __future__ import annotations

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
