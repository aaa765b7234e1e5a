import pytest

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy

OK = Result()
BAD = Result(ResultKind.FAILURE)
IGNORED = Result(ResultKind.IGNORED)
SLOW = {"slow_call_duration_threshold_ms": 100, "slow_call_rate_threshold": 0.5}


def opened(**rules) -> Breaker:
    """A circuit that opened at 0 and may be probed from 60 on."""
    breaker = Breaker("c", BreakerPolicy(**{"consecutive_failures": 1, **rules}), 0.0)
    breaker.record(0.0, BAD)
    assert breaker.state == "open"
    return breaker


def acquire(breaker, now, count=1):
    permits = [breaker.try_acquire(now) for _ in range(count)]
    assert all(isinstance(permit, BreakerPermit) for permit in permits)
    return permits if count > 1 else permits[0]


def test_a_probe_may_go_at_the_instant_the_wait_is_over_and_not_before():
    breaker = opened()
    refused = breaker.try_acquire(59.999)
    assert isinstance(refused, BreakerRejection)
    assert (refused.state, refused.retry_after_s) == ("open", pytest.approx(0.001))
    assert refused.cause.rule == "consecutive_failures"
    permit = acquire(breaker, 60.0)
    assert permit.probe
    assert breaker.state == "half_open"


def test_exactly_the_permitted_number_of_probes_fly_however_many_ask():
    breaker = opened(permitted_number_of_calls_in_half_open_state=3)
    answers = [breaker.try_acquire(60.0) for _ in range(1000)]
    assert sum(isinstance(answer, BreakerPermit) for answer in answers) == 3
    assert len({answer.lease_id for answer in answers[:3]}) == 3


def test_a_good_probe_closes_and_the_window_starts_empty():
    breaker = opened()
    transition = breaker.record(61.0, OK, acquire(breaker, 60.0))
    assert (transition.previous, transition.state, transition.cause.rule) == ("half_open", "closed", "probe_succeeded")
    assert breaker.counts(61.0).calls == 0
    assert breaker.attempt == 0


def test_a_failed_probe_opens_the_circuit_again_for_a_whole_wait():
    breaker = opened()
    transition = breaker.record(70.0, BAD, acquire(breaker, 60.0))
    assert (transition.state, transition.cause.rule, transition.open_until) == ("open", "probe_failed", 130.0)
    assert breaker.attempt == 2


def test_a_slow_probe_is_a_bad_one_where_slow_calls_open():
    breaker = opened(**SLOW)
    transition = breaker.record(61.0, Result(duration_ms=101.0), acquire(breaker, 60.0))
    assert (transition.state, transition.cause.rule) == ("open", "probe_slow")


def test_several_successes_close_where_the_policy_asks_for_several():
    breaker = opened(success_threshold_to_close=3)
    for _ in range(2):
        assert breaker.record(60.0, OK, acquire(breaker, 60.0)) is None
    assert breaker.record(60.0, OK, acquire(breaker, 60.0)).state == "closed"


def test_no_more_probes_go_than_could_still_be_needed():
    breaker = opened(permitted_number_of_calls_in_half_open_state=3, success_threshold_to_close=3)
    first, *_ = acquire(breaker, 60.0, 3)
    assert breaker.record(60.0, OK, first) is None
    assert isinstance(breaker.try_acquire(60.0), BreakerRejection)


def test_a_released_permit_can_be_had_again_once():
    breaker = opened()
    permit = acquire(breaker, 60.0)
    breaker.release(permit, 60.0)
    breaker.release(permit, 60.0)
    acquire(breaker, 60.0)
    assert isinstance(breaker.try_acquire(60.0), BreakerRejection)
    assert breaker.record(60.0, BAD, permit) is None
    assert breaker.state == "half_open"


def test_a_permit_counts_once():
    breaker = opened(success_threshold_to_close=2)
    permit = acquire(breaker, 60.0)
    breaker.record(60.0, OK, permit)
    assert breaker.record(60.0, OK, permit) is None
    assert breaker.state == "half_open"


def test_ignored_probes_give_their_permit_back_and_decide_nothing():
    breaker = opened()
    for _ in range(9):
        assert breaker.record(60.0, IGNORED, acquire(breaker, 60.0)) is None
    assert breaker.record(60.0, OK, acquire(breaker, 60.0)).state == "closed"


def test_ignored_probes_are_bounded():
    breaker = opened(permitted_number_of_calls_in_half_open_state=2)
    for _ in range(19):
        assert breaker.record(60.0, IGNORED, acquire(breaker, 60.0)) is None
    transition = breaker.record(60.0, IGNORED, acquire(breaker, 60.0))
    assert (transition.state, transition.cause.rule, transition.cause.value) == ("open", "probes_ignored", 20)


def test_a_lost_probe_never_blocks_the_circuit():
    breaker = opened(max_wait_duration_in_half_open_state_s=30)
    lost = acquire(breaker, 60.0)
    assert breaker.advance(89.9) is None
    transition = breaker.advance(95.0)
    assert (transition.state, transition.cause.rule, transition.at) == ("open", "half_open_timeout", 90.0)
    assert transition.open_until == 150.0
    assert breaker.record(100.0, OK, lost) is None
    assert breaker.record(150.0, OK, acquire(breaker, 150.0)).state == "closed"


def test_a_long_silence_ends_the_stay_and_the_wait_after_it_at_once():
    breaker = opened()
    acquire(breaker, 60.0)
    assert acquire(breaker, 100_000.0).probe
    assert breaker.attempt == 2


def test_a_probe_of_an_older_half_open_stay_is_dropped():
    breaker = opened(permitted_number_of_calls_in_half_open_state=2)
    old, other = acquire(breaker, 60.0, 2)
    breaker.record(60.0, BAD, other)
    fresh = acquire(breaker, 120.0)
    assert breaker.record(120.0, BAD, old) is None
    assert breaker.record(120.0, OK, fresh).state == "closed"


@pytest.mark.parametrize(("failures", "state"), [(0, "closed"), (1, "closed"), (2, "open"), (4, "open")])
def test_recovery_by_rate_judges_all_probes_together(failures, state):
    rules = {"failure_rate_threshold": 0.5, "half_open_decision": "rate"}
    breaker = opened(permitted_number_of_calls_in_half_open_state=4, **rules)
    permits = acquire(breaker, 60.0, 4)
    results = [BAD] * failures + [OK] * (4 - failures)
    for permit, result in zip(permits[:3], results, strict=False):
        assert breaker.record(60.0, result, permit) is None
    assert isinstance(breaker.try_acquire(60.0), BreakerRejection)
    assert breaker.record(60.0, results[3], permits[3]).state == state


def test_recovery_by_rate_does_not_replace_a_probe_that_came_back():
    rules = {"failure_rate_threshold": 0.5, "half_open_decision": "rate"}
    breaker = opened(permitted_number_of_calls_in_half_open_state=2, **rules)
    assert breaker.record(60.0, OK, acquire(breaker, 60.0)) is None
    acquire(breaker, 60.0)
    assert isinstance(breaker.try_acquire(60.0), BreakerRejection)


def test_recovery_by_rate_judges_slow_probes():
    breaker = opened(permitted_number_of_calls_in_half_open_state=2, half_open_decision="rate", **SLOW)
    first, second = acquire(breaker, 60.0, 2)
    breaker.record(60.0, Result(duration_ms=500.0), first)
    transition = breaker.record(60.0, OK, second)
    assert (transition.state, transition.cause.rule, transition.cause.value) == ("open", "probe_slow_call_rate", 0.5)


def test_a_late_failure_while_open_changes_nothing():
    breaker = Breaker("c", BreakerPolicy(consecutive_failures=2), 0.0)
    late = breaker.try_acquire(0.0)
    breaker.record(0.0, BAD)
    breaker.record(0.0, BAD)
    before = breaker.snapshot()
    assert breaker.record(0.0, BAD, late) is None
    assert breaker.snapshot() == before
