"""A new policy while the breaker runs: it keeps its state, and the evidence that still has a meaning."""

import pytest

from switchgear.breaker import Breaker, BreakerRejection, Result, ResultKind
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy, Cusum
from tests.support.table import table

BAD = Result(ResultKind.FAILURE, tokens=5, duration_ms=50.0, reporter="a")


def with_failures(policy, count=4, until=4.0):
    breaker = Breaker("c", policy, 0.0)
    for number in range(count):
        assert breaker.record(until * (number + 1) / count, BAD) is None
    return breaker


def test_a_run_of_failures_is_kept():
    breaker = with_failures(BreakerPolicy(consecutive_failures=10))
    breaker.set_policy(BreakerPolicy(consecutive_failures=5), 5.0)
    assert breaker.record(5.0, BAD).cause.value == 5


def test_an_open_circuit_stays_open_until_its_instant():
    breaker = with_failures(BreakerPolicy(consecutive_failures=10))
    breaker.transition_to("open", 5.0, actor="me")
    breaker.set_policy(BreakerPolicy(wait_duration_in_open_state_s=1), 6.0)
    assert breaker.open_until == 65.0
    assert isinstance(breaker.try_acquire(64.0), BreakerRejection)


@table(
    "change",
    [
        {"sliding_window_size": 120},
        {"sliding_window_panes": 3},
        {"sliding_window_type": "count", "sliding_window_size": 5},
        {"slow_call_duration_threshold_ms": 40, "slow_call_rate_threshold": 1.0},
        {"minimum_reporters": 2},
    ],
)
def test_a_policy_that_counts_in_another_way_starts_with_an_empty_window_and_the_run_of_failures(change):
    breaker = with_failures(BreakerPolicy(consecutive_failures=100))
    breaker.set_policy(BreakerPolicy(consecutive_failures=100, **change), 4.0)
    assert breaker.counts(4.0).calls == 0
    assert breaker.counts(4.0).consecutive_failures == 4


@pytest.mark.parametrize("window", [{}, {"sliding_window_type": "count", "sliding_window_size": 50}])
def test_the_window_is_kept_when_only_thresholds_change(window):
    slow = {"slow_call_duration_threshold_ms": 10, "slow_call_rate_threshold": 1.0, "minimum_reporters": 2}
    breaker = with_failures(BreakerPolicy(**slow, **window))
    breaker.set_policy(BreakerPolicy(**slow | {"slow_call_rate_threshold": 0.5}, **window, failure_count=50), 4.0)
    counts = breaker.counts(4.0)
    assert (counts.calls, counts.failed, counts.slow, counts.wasted_tokens) == (4, 4, 4, 20)


def test_the_cusum_is_kept_while_its_rates_stay():
    breaker = with_failures(BreakerPolicy(cusum=Cusum()), count=7)
    breaker.set_policy(BreakerPolicy(cusum=Cusum(), consecutive_failures=50), 5.0)
    assert breaker.record(5.0, BAD).cause.rule == "cusum"
    other = with_failures(BreakerPolicy(cusum=Cusum()), count=7)
    other.set_policy(BreakerPolicy(cusum=Cusum(broken_failure_rate=0.9)), 5.0)
    assert other.record(5.0, BAD) is None


@pytest.mark.parametrize("mode", ["metrics_only", "disabled", "forced_open"])
def test_a_change_of_mode_changes_the_state_and_back(mode):
    breaker = Breaker("c", FLEET_DEFAULT, 0.0)
    transition = breaker.set_policy(FLEET_DEFAULT.model_copy(update={"mode": mode}), 1.0)
    assert (transition.state, transition.cause.rule) == (mode, "policy")
    assert breaker.set_policy(FLEET_DEFAULT, 2.0).state == "closed"


def test_a_change_of_mode_does_not_undo_an_operators_command():
    breaker = Breaker("c", FLEET_DEFAULT.model_copy(update={"mode": "metrics_only"}), 0.0)
    breaker.command("force_open", 1.0, actor="ana")
    assert breaker.set_policy(FLEET_DEFAULT, 2.0) is None
    assert breaker.state == "forced_open"


def test_the_same_policy_again_changes_nothing():
    breaker = with_failures(FLEET_DEFAULT)
    before = breaker.snapshot()
    breaker.set_policy(FLEET_DEFAULT.model_copy(), 4.0)
    assert breaker.snapshot() == before
