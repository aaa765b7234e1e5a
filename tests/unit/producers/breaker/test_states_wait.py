import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.states import open_until, spread, wait_s
from switchgear_schemas.policy import BreakerPolicy

BAD = Result(ResultKind.FAILURE)


def policy_of(**values) -> BreakerPolicy:
    return BreakerPolicy(**{"consecutive_failures": 1, "wait_duration_in_open_state_s": 10, **values})


def test_the_wait_grows_with_each_attempt_up_to_the_cap():
    policy = policy_of(backoff_multiplier=2, max_wait_duration_in_open_state_s=50)
    assert [wait_s("c", attempt, policy) for attempt in (1, 2, 3, 4, 5, 100, 10**9)] == [10, 20, 40, 50, 50, 50, 50]


def test_without_a_multiplier_every_wait_is_the_same():
    assert {wait_s("c", attempt, policy_of()) for attempt in range(1, 50)} == {10}


def test_jitter_only_shortens_and_is_the_same_in_every_process():
    policy = policy_of(jitter=0.5, max_wait_duration_in_open_state_s=10)
    waits = [wait_s(f"tool{number}", 1, policy) for number in range(1000)]
    assert 5 < min(waits) < 5.1
    assert 9.9 < max(waits) <= 10
    assert sum(waits) / 1000 == pytest.approx(7.5, abs=0.2)
    assert spread("tool", 1) == 0.9684551139362156
    assert spread("tool", 2) != spread("tool", 1)


def test_a_name_that_utf_8_cannot_encode_has_a_wait():
    assert spread("tool\ud800", 1) == 0.8248397104907781
    assert 5 <= wait_s("tool\ud800", 1, policy_of(jitter=0.5)) <= 10


def test_retry_after_lengthens_the_wait_up_to_the_cap_and_never_shortens_it():
    policy = policy_of(max_wait_duration_in_open_state_s=100)
    assert open_until("c", 1, policy, 0.0, None) == 10
    assert open_until("c", 1, policy, 0.0, 30.0) == 30
    assert open_until("c", 1, policy, 0.0, 5.0) == 10
    assert open_until("c", 1, policy, 0.0, 1e9) == 100
    assert open_until("c", 1, policy.model_copy(update={"honor_retry_after": False}), 0.0, 30.0) == 10


def test_a_rate_limited_tool_is_left_alone_as_long_as_it_asked_for():
    breaker = Breaker("c", policy_of(), 0.0)
    transition = breaker.record(1.0, Result(ResultKind.FAILURE, retry_after_s=45.0))
    assert transition.open_until == 46.0


def test_the_longest_retry_after_is_remembered_from_failures_before_the_one_that_opened():
    breaker = Breaker("c", policy_of(consecutive_failures=2), 0.0)
    breaker.record(0.0, Result(ResultKind.FAILURE, retry_after_s=45.0))
    assert breaker.record(1.0, BAD).open_until == 45.0


def test_a_close_resets_the_growth():
    breaker = Breaker("c", policy_of(backoff_multiplier=3), 0.0)
    breaker.record(0.0, BAD)
    assert breaker.record(10.0, BAD, breaker.try_acquire(10.0)).open_until == 40.0
    breaker.record(40.0, Result(), breaker.try_acquire(40.0))
    assert breaker.state == "closed"
    assert breaker.record(50.0, BAD).open_until == 60.0


def test_retry_after_s_counts_down_and_is_unknown_where_no_instant_is():
    breaker = Breaker("c", policy_of(), 0.0)
    assert breaker.retry_after_s(0.0) is None
    breaker.record(0.0, BAD)
    assert breaker.retry_after_s(4.0) == 6.0
    breaker.command("force_open", 5.0, actor="me")
    assert breaker.retry_after_s(6.0) is None
    assert breaker.try_acquire(6.0).retry_after_s is None
