"""A call that takes too long counts as slow before it ends, and only once."""

import pytest

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear.breaker.values import LEAST_OVERDUE_MS
from switchgear_schemas.policy import BreakerPolicy

SLOW_MS = 200.0
SLOW = {"slow_call_duration_threshold_ms": SLOW_MS, "slow_call_rate_threshold": 0.5}
ALL_SLOW = BreakerPolicy(**SLOW)
RARELY_JUDGED = BreakerPolicy(**SLOW, minimum_number_of_calls=1000)
BY_CALLS = BreakerPolicy(**SLOW, minimum_number_of_calls=3, sliding_window_type="count", sliding_window_size=4)
LATE = Result(ResultKind.OVERDUE, duration_ms=SLOW_MS)


def ended(kind=ResultKind.SUCCESS, took_ms=3000.0, overdue_ms=SLOW_MS, tokens=0):
    return Result(kind, duration_ms=took_ms, tokens=tokens, overdue_ms=overdue_ms)


def opened(policy=ALL_SLOW, now=0.0):
    breaker = Breaker("c", policy, now)
    breaker.transition_to("open", now, actor="test", open_for_s=10)
    return breaker


def in_window(breaker, now):
    counts = breaker.counts(now)
    return counts.calls, counts.failed, counts.slow


def test_twenty_overdue_calls_open_at_the_twentieth_without_an_end():
    breaker = Breaker("c", ALL_SLOW, 0.0)
    permits = [breaker.try_acquire(0.0) for _ in range(20)]
    moves = [breaker.record(0.2, LATE, permit) for permit in permits]
    assert [move is not None for move in moves] == [False] * 19 + [True]
    cause = moves[-1].cause
    assert (cause.rule, cause.value, cause.sample) == ("slow_call_rate", 1.0, 20)
    assert cause.slow_call_duration_threshold_ms == SLOW_MS
    assert not isinstance(breaker.try_acquire(0.2), BreakerPermit)


@pytest.mark.parametrize("policy", [RARELY_JUDGED, BY_CALLS])
def test_a_call_that_was_overdue_and_ends_well_counts_once(policy):
    breaker = Breaker("c", policy, 0.0)
    permit = breaker.try_acquire(0.0)
    breaker.record(0.2, LATE, permit)
    assert in_window(breaker, 0.2) == (1, 0, 1)
    assert breaker.counts(0.2).total_calls == 0, "it is a call of the totals when it has ended"
    breaker.record(3.0, ended(), permit)
    assert in_window(breaker, 3.0) == (1, 0, 1)
    assert breaker.counts(3.0).total_calls == 1


@pytest.mark.parametrize("policy", [RARELY_JUDGED, BY_CALLS])
def test_a_call_that_was_overdue_and_fails_counts_once_as_failed_and_slow(policy):
    breaker = Breaker("c", policy, 0.0)
    breaker.record(0.2, LATE)
    breaker.record(3.0, ended(ResultKind.FAILURE, tokens=7))
    counts = breaker.counts(3.0)
    assert in_window(breaker, 3.0) == (1, 1, 1)
    assert (counts.consecutive_failures, counts.wasted_tokens, counts.total_failed) == (1, 7, 1)


def test_a_failure_moves_from_the_pane_in_which_it_was_overdue_to_that_of_its_end():
    breaker = Breaker("c", RARELY_JUDGED, 0.0)
    breaker.record(1.0, LATE)
    breaker.record(31.0, ended(ResultKind.FAILURE, took_ms=30_200))
    assert in_window(breaker, 62.0) == (1, 1, 1), "the pane of the first second has left"
    assert in_window(breaker, 95.0) == (0, 0, 0)


def test_a_failure_whose_overdue_pane_has_left_the_window_counts_as_a_failure_alone():
    breaker = Breaker("c", RARELY_JUDGED, 0.0)
    breaker.record(0.2, LATE)
    breaker.record(99.0, LATE)
    breaker.record(100.0, ended(ResultKind.FAILURE, took_ms=100_000))
    assert in_window(breaker, 100.0) == (2, 1, 1), "the other call stays as it was"


def test_a_failure_that_no_longer_is_among_the_last_calls_counts_as_a_failure_alone():
    breaker = Breaker("c", BY_CALLS, 0.0)
    breaker.record(0.2, LATE)
    for _ in range(4):
        breaker.record(1.0, Result())
    breaker.record(3.0, ended(ResultKind.FAILURE))
    assert in_window(breaker, 3.0) == (4, 1, 0)


@pytest.mark.parametrize("delay_s", [-3.0, 3.0])
def test_a_report_that_arrives_in_the_next_pane_is_found(delay_s):
    breaker = Breaker("c", RARELY_JUDGED, 0.0)
    breaker.record(30.0 + delay_s, LATE)
    breaker.record(40.0, ended(ResultKind.FAILURE, took_ms=10_200))
    assert in_window(breaker, 40.0) == (1, 1, 1)


def test_a_success_that_was_overdue_ends_a_run_of_failures():
    breaker = Breaker("c", BreakerPolicy(**SLOW, consecutive_failures=3), 0.0)
    breaker.record(0.0, Result(ResultKind.FAILURE))
    breaker.record(0.2, LATE)
    assert breaker.counts(0.2).consecutive_failures == 1
    breaker.record(1.0, ended())
    assert breaker.counts(1.0).consecutive_failures == 0


def test_timeouts_that_were_overdue_open_by_the_run_of_failures():
    breaker = Breaker("c", BreakerPolicy(**SLOW, consecutive_failures=2), 0.0)
    breaker.record(0.2, LATE)
    breaker.record(0.3, LATE)
    assert breaker.record(3.0, ended(ResultKind.FAILURE)) is None
    assert breaker.record(3.1, ended(ResultKind.FAILURE)).cause.rule == "consecutive_failures"


def test_without_a_rule_for_slow_calls_an_overdue_call_counts_as_nothing_until_its_end():
    breaker = Breaker("c", BreakerPolicy(failure_rate_threshold=0.5, minimum_number_of_calls=2), 0.0)
    breaker.record(60.0, Result(ResultKind.OVERDUE, duration_ms=60_000))
    assert in_window(breaker, 60.0) == (0, 0, 0)
    breaker.record(61.0, ended(ResultKind.FAILURE, took_ms=61_000, overdue_ms=60_000))
    assert in_window(breaker, 61.0) == (1, 1, 0)


def test_an_overdue_report_below_the_threshold_counts_as_nothing_until_its_end():
    breaker = Breaker("c", RARELY_JUDGED, 0.0)
    breaker.record(0.1, Result(ResultKind.OVERDUE, duration_ms=100))
    assert in_window(breaker, 0.1) == (0, 0, 0)
    breaker.record(0.15, ended(took_ms=150, overdue_ms=100))
    assert in_window(breaker, 0.15) == (1, 0, 0)


def test_an_overdue_probe_opens_the_circuit_again_at_once_and_its_end_is_dropped():
    breaker = opened()
    probe = breaker.try_acquire(10.0)
    assert probe.probe
    moved = breaker.record(10.2, LATE, probe)
    assert (moved.state, moved.cause.rule) == ("open", "probe_slow")
    assert breaker.record(13.0, ended(), probe) is None
    assert (breaker.state, breaker.counts(13.0).total_calls) == ("open", 1)


def test_an_overdue_probe_is_one_of_those_that_decide_by_rate():
    policy = BreakerPolicy(
        **SLOW, half_open_decision="rate", permitted_number_of_calls_in_half_open_state=2, failure_rate_threshold=0.9
    )
    breaker = opened(policy)
    first, second = breaker.try_acquire(10.0), breaker.try_acquire(10.0)
    assert breaker.record(10.2, LATE, first) is None
    assert breaker.record(10.3, Result(), second).cause.rule == "probe_slow_call_rate"


def test_a_probe_that_is_reported_below_the_threshold_goes_on():
    breaker = opened()
    probe = breaker.try_acquire(10.0)
    assert breaker.record(10.1, Result(ResultKind.OVERDUE, duration_ms=100), probe) is None
    assert breaker.remaining_probes == 0
    assert breaker.record(10.15, Result(duration_ms=150), probe).state == "closed"


def test_an_overdue_report_of_an_older_generation_is_dropped():
    breaker = Breaker("c", RARELY_JUDGED, 0.0)
    permit = breaker.try_acquire(0.0)
    breaker.transition_to("open", 0.1, actor="test", open_for_s=1)
    breaker.transition_to("closed", 0.1, actor="test")
    assert breaker.record_event(0.2, LATE, permit.generation, None) is None
    assert breaker.record_event(3.0, ended(), permit.generation, None) is None
    assert in_window(breaker, 3.0) == (0, 0, 0)


def test_an_overdue_call_without_a_guard_tells_an_open_circuit_that_the_tool_still_hangs():
    breaker = opened()
    before = breaker.record_event(9.0, LATE, None, None, started_at=8.8)
    assert (before, breaker.state) == (None, "open")
    moved = breaker.record_event(12.0, LATE, None, None, started_at=11.0)
    assert (moved.state, moved.cause.rule, breaker.attempt) == ("open", "probe_slow", 2)


def test_a_ramp_counts_the_end_of_an_overdue_call():
    breaker = Breaker("c", BreakerPolicy(**SLOW, minimum_number_of_calls=1000, recovery_ramp=(0.5,)), 0.0)
    breaker.transition_to("open", 0.0, actor="test", open_for_s=10)
    breaker.record(10.0, Result(), breaker.try_acquire(10.0))
    assert breaker.admitted_share == 0.5
    for number in range(20):
        breaker.record(10.5 + number / 100, LATE)
    assert breaker.state == "closed"
    for number in range(20):
        breaker.record(12.0 + number / 100, ended(ResultKind.FAILURE))
    assert breaker.cause.rule == "recovery_failed"


def test_with_a_rate_of_slow_calls_alone_only_what_was_overdue_is_slow():
    policy = BreakerPolicy(slow_call_rate_threshold=0.5, minimum_number_of_calls=2)
    breaker = Breaker("c", policy, 0.0)
    assert breaker.late_ms == LEAST_OVERDUE_MS
    breaker.record(60.0, Result(duration_ms=60_000))
    breaker.record(60.0, Result(ResultKind.OVERDUE, duration_ms=4_999))
    assert in_window(breaker, 60.0) == (1, 0, 0)
    moved = breaker.record(61.0, Result(ResultKind.OVERDUE, duration_ms=5_000))
    assert (moved.cause.rule, moved.cause.slow_call_duration_threshold_ms) == ("slow_call_rate", 5_000)


def test_a_process_whose_calls_are_all_overdue_is_one_of_the_reporters():
    policy = BreakerPolicy(**SLOW, minimum_number_of_calls=4, minimum_reporters=2)
    breaker = Breaker("c", policy, 0.0)
    for _ in range(4):
        breaker.record(0.2, Result(ResultKind.OVERDUE, duration_ms=SLOW_MS, reporter="a"))
    assert breaker.state == "open", "the only process that called agrees with itself"
    breaker = Breaker("c", policy, 0.0)
    breaker.record(0.1, Result(reporter="b"))
    for _ in range(4):
        breaker.record(0.2, Result(ResultKind.OVERDUE, duration_ms=SLOW_MS, reporter="a"))
    assert breaker.state == "closed"
    moved = breaker.record(0.3, Result(ResultKind.OVERDUE, duration_ms=SLOW_MS, reporter="b"))
    assert moved.cause.reporters == 2


def test_the_tools_of_a_family_that_hang_open_it():
    breaker = Breaker("f", BreakerPolicy(**SLOW, minimum_number_of_calls=4, minimum_tools=2), 0.0)
    for tool in "xxxy":
        moved = breaker.record(0.2, Result(ResultKind.OVERDUE, duration_ms=SLOW_MS, tool=tool))
    assert (moved.cause.rule, moved.cause.tools) == ("slow_call_rate", 2)


def test_a_restored_circuit_knows_the_overdue_calls_of_its_window():
    breaker = Breaker("c", RARELY_JUDGED, 0.0)
    breaker.record(1.0, LATE)
    breaker = Breaker.restore(breaker.snapshot(), RARELY_JUDGED)
    breaker.record(3.0, ended(ResultKind.FAILURE, took_ms=2_200))
    assert in_window(breaker, 3.0) == (1, 1, 1)


@pytest.mark.parametrize("policy", [RARELY_JUDGED, BY_CALLS])
@pytest.mark.parametrize(
    ("took_ms", "overdue_ms"), [(0.0, 1e300), (1e300, 1e300), (1e300, SLOW_MS), (0.0, float("nan")), (1e-320, 1e-320)]
)
@pytest.mark.parametrize("kind", [ResultKind.SUCCESS, ResultKind.FAILURE])
def test_impossible_numbers_leave_a_window_that_can_be_saved(policy, took_ms, overdue_ms, kind):
    breaker = Breaker("c", policy, 50.0)
    breaker.record(50.0, Result(ResultKind.OVERDUE, duration_ms=overdue_ms))
    breaker.record(51.0, Result(kind, duration_ms=took_ms, overdue_ms=overdue_ms))
    breaker.record(52.0, Result(kind, duration_ms=took_ms, overdue_ms=overdue_ms))
    saved = breaker.snapshot()
    assert Breaker.restore(saved, policy).snapshot() == saved
    calls, failed, slow = in_window(breaker, 52.0)
    assert max(failed, slow) <= calls <= 3
