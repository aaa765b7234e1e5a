"""A new policy while the breaker runs: it keeps its state, and the evidence that still has a meaning."""

import pytest

from switchgear.breaker import Breaker, BreakerRejection, Result, ResultKind
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy, Cusum

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


@pytest.mark.parametrize(("size", "panes", "kept"), [(120, None, 4), (30, 3, 4), (60, 1, 4), (2, 2, 2)])
def test_a_time_window_is_counted_over_into_another_size(size, panes, kept):
    breaker = with_failures(BreakerPolicy(failure_count=100))
    breaker.set_policy(BreakerPolicy(failure_count=100, sliding_window_size=size, sliding_window_panes=panes), 4.0)
    counts = breaker.counts(4.0)
    assert counts.failed == counts.calls
    assert abs(counts.failed - kept) <= 1
    assert counts.wasted_tokens == 5 * counts.failed


@pytest.mark.parametrize(("size", "kept"), [(10, 4), (3, 3)])
def test_a_count_window_keeps_its_latest_calls(size, kept):
    breaker = with_failures(BreakerPolicy(sliding_window_type="count", sliding_window_size=5))
    breaker.set_policy(BreakerPolicy(sliding_window_type="count", sliding_window_size=size), 4.0)
    assert breaker.counts(4.0).failed == kept
    breaker.record(4.0, Result())
    assert breaker.counts(4.0).calls == min(size, 5)


def test_another_type_of_window_starts_empty():
    breaker = with_failures(BreakerPolicy(failure_count=100))
    breaker.set_policy(BreakerPolicy(sliding_window_type="count", sliding_window_size=5), 4.0)
    assert breaker.counts(4.0).calls == 0
    assert breaker.counts(4.0).consecutive_failures == 4


def test_slow_calls_are_forgotten_when_slow_means_something_else():
    slow = {"slow_call_duration_threshold_ms": 10, "slow_call_rate_threshold": 1.0}
    breaker = with_failures(BreakerPolicy(**slow))
    assert breaker.counts(4.0).slow == 4
    breaker.set_policy(BreakerPolicy(**slow | {"slow_call_rate_threshold": 0.5}), 4.0)
    assert breaker.counts(4.0).slow == 4
    breaker.set_policy(BreakerPolicy(**slow | {"slow_call_duration_threshold_ms": 40}), 4.0)
    assert breaker.counts(4.0).slow == 0
    assert breaker.counts(4.0).failed == 4


def test_the_cusum_is_kept_while_its_rates_stay():
    breaker = with_failures(BreakerPolicy(cusum=Cusum()), count=7)
    breaker.set_policy(BreakerPolicy(cusum=Cusum(), consecutive_failures=50), 5.0)
    assert breaker.record(5.0, BAD).cause.rule == "cusum"
    other = with_failures(BreakerPolicy(cusum=Cusum()), count=7)
    other.set_policy(BreakerPolicy(cusum=Cusum(broken_failure_rate=0.9)), 5.0)
    assert other.record(5.0, BAD) is None


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 3), (3, 2), (3, 1)])
def test_the_wanted_reporters_may_change(before, after):
    breaker = with_failures(BreakerPolicy(failure_count=6, minimum_reporters=before))
    breaker.record(4.0, Result(reporter="b"))
    breaker.set_policy(BreakerPolicy(failure_count=6, minimum_reporters=after), 4.0)
    breaker.record(4.0, BAD)
    transition = breaker.record(4.0, BAD)
    assert (transition is None) == (after > 1 and before > 1)


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
