"""A run of failures ends with the window, and the sum of a CUSUM after a day without calls."""

import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.states import IDLE_S, STALE_S
from switchgear_schemas.policy import BreakerPolicy, Cusum

OK = Result()
BAD = Result(ResultKind.FAILURE)
IGNORED = Result(ResultKind.IGNORED)
DAY_S = 86_400.0
RUN_OF_FIVE = BreakerPolicy(consecutive_failures=5)
ONLY_CUSUM = BreakerPolicy(cusum=Cusum())


def breaker_of(policy=RUN_OF_FIVE, now=0.0):
    return Breaker("c", policy, now)


def run_of(breaker, now):
    return breaker.counts(now).consecutive_failures


def test_four_failures_three_idle_days_and_one_more_stay_closed():
    breaker = breaker_of()
    for at in range(4):
        breaker.record(float(at), BAD)
    assert breaker.record(3 * DAY_S, BAD) is None
    assert (breaker.state, run_of(breaker, 3 * DAY_S)) == ("closed", 1)


def test_timeouts_of_a_minute_one_after_the_other_are_one_run():
    breaker = breaker_of()
    timeout = Result(ResultKind.FAILURE, duration_ms=60_000)
    moves = [breaker.record(61.0 * number, timeout) for number in range(1, 6)]
    assert [move is not None for move in moves] == [False, False, False, False, True]
    assert (moves[-1].cause.rule, moves[-1].cause.sample) == ("consecutive_failures", 5)


def test_calls_that_begin_just_after_the_window_are_no_run():
    breaker = breaker_of()
    timeout = Result(ResultKind.FAILURE, duration_ms=60_000)
    for number in range(1, 20):
        breaker.record(120.5 * number, timeout)
    assert (breaker.state, run_of(breaker, 120.5 * 19)) == ("closed", 1)


@pytest.mark.parametrize(
    "window", [{"sliding_window_size": 10}, {"sliding_window_size": 10, "sliding_window_panes": 1}, {}]
)
def test_a_run_lives_exactly_as_long_as_the_window(window):
    policy = BreakerPolicy(consecutive_failures=2, **window)
    size = float(policy.sliding_window_size)
    at_the_end, after = breaker_of(policy), breaker_of(policy)
    at_the_end.record(100.0, BAD)
    after.record(100.0, BAD)
    assert at_the_end.record(100.0 + size, BAD) is not None
    assert after.record(100.0 + size + 0.001, BAD) is None
    assert after.record(100.0 + size + 0.002, BAD) is not None


def test_the_counts_show_no_run_that_the_next_failure_would_not_continue():
    breaker = breaker_of()
    breaker.record(0.0, BAD)
    assert [run_of(breaker, now) for now in (0.0, 60.0, 60.001, 1000.0)] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    "later",
    [
        Result(ResultKind.OVERDUE, duration_ms=10, reporter="b"),
        Result(ResultKind.IGNORED, credential="c", reporter="b"),
    ],
    ids=["a call that hangs", "a rejected credential"],
)
@pytest.mark.parametrize(
    ("rule", "age_s"), [({"consecutive_failures": 2}, 61.0), ({"cusum": Cusum()}, STALE_S + 1)], ids=["run", "cusum"]
)
def test_what_is_no_part_of_an_old_run_or_sum_does_not_open_by_it(later, rule, age_s):
    other = {"slow_call_duration_threshold_ms": 5, "slow_call_rate_threshold": 1, "consecutive_auth_failures": 1}
    breaker = breaker_of(BreakerPolicy(**rule, **other, minimum_reporters=2))
    breaker.record(0.0, Result(reporter="b"))
    for number in range(20):  # without a second process that agrees
        breaker.record(number / 10, Result(ResultKind.FAILURE, reporter="a"))
    assert breaker.state == "closed"
    moved = breaker.record(age_s + 2, later)
    assert moved is None or moved.cause.rule == "auth_failures"


def test_ignored_calls_do_not_keep_a_run_alive():
    breaker = breaker_of(BreakerPolicy(consecutive_failures=2))
    breaker.record(0.0, BAD)
    for at in (30.0, 60.0):
        breaker.record(at, IGNORED)
    assert breaker.record(90.0, BAD) is None


def test_the_run_of_a_count_window_has_no_age_but_a_day():
    policy = BreakerPolicy(consecutive_failures=2, sliding_window_type="count", sliding_window_size=10)
    within, after = breaker_of(policy), breaker_of(policy)
    within.record(0.0, BAD)
    after.record(0.0, BAD)
    assert within.record(STALE_S, BAD) is not None
    assert after.record(STALE_S + 1, BAD) is None


def test_a_sum_is_forgotten_after_a_day_and_not_after_ten_minutes():
    whole = [breaker_of(ONLY_CUSUM) for _ in range(2)]
    for number in range(7):
        for breaker in whole:
            assert breaker.record(600.0 * number, BAD) is None
    kept, forgotten = whole
    assert kept.record(600.0 * 6 + STALE_S, BAD).cause.rule == "cusum"
    assert forgotten.record(600.0 * 6 + STALE_S + 1, BAD) is None
    moves = [forgotten.record(600.0 * 7 + STALE_S + number, BAD) for number in range(7)]
    assert [move is not None for move in moves] == [False] * 6 + [True]
    assert moves[-1].cause.sample == 8


def test_successes_keep_a_sum_from_being_forgotten():
    breaker = breaker_of(ONLY_CUSUM)
    for number in range(7):
        breaker.record(float(number), BAD)
    breaker.record(DAY_S * 0.75, OK)
    assert breaker.record(DAY_S * 1.5, BAD) is not None, "7 * 41 - 15 + 41 is 313 units, and the height is 306"


def test_a_clock_that_goes_back_forgets_nothing():
    breaker = breaker_of(BreakerPolicy(consecutive_failures=3), now=10_000.0)
    moves = [breaker.record(at, BAD) for at in (10_000.0, 0.0, 5_000.0)]
    assert moves[-1] is not None


def test_a_call_that_began_before_the_last_one_ended_continues_the_run():
    breaker = breaker_of(BreakerPolicy(consecutive_failures=2))
    breaker.record(0.0, BAD)
    assert breaker.record(500.0, Result(ResultKind.FAILURE, duration_ms=501_000)) is not None


def test_a_restored_circuit_ends_its_run_as_the_saved_one_would():
    breaker = breaker_of()
    for at in range(4):
        breaker.record(float(at), BAD)
    breaker.record(50.0, IGNORED)
    within, after = (Breaker.restore(breaker.snapshot(), RUN_OF_FIVE) for _ in range(2))
    assert within.record(63.0, BAD) is not None
    assert after.record(63.5, BAD) is None


def test_a_run_ends_by_the_window_of_a_new_policy():
    longer, shorter = (breaker_of(BreakerPolicy(consecutive_failures=2)) for _ in range(2))
    for breaker, size in ((longer, 600), (shorter, 10)):
        breaker.record(0.0, BAD)
        breaker.set_policy(BreakerPolicy(consecutive_failures=2, sliding_window_size=size), 5.0)
    assert longer.record(500.0, BAD) is not None
    assert shorter.record(11.0, BAD) is None


def test_an_ended_run_does_not_delay_retirement_and_a_sum_does():
    running, summing = breaker_of(), breaker_of(ONLY_CUSUM)
    for breaker in (running, summing):
        breaker.record(0.0, BAD)
    assert [running.may_retire(now) for now in (IDLE_S - 1, IDLE_S)] == [False, True]
    assert [summing.may_retire(now) for now in (IDLE_S, STALE_S - 1, STALE_S)] == [False, False, True]


def test_a_run_of_a_long_window_delays_retirement_until_the_window_is_over():
    breaker = breaker_of(BreakerPolicy(consecutive_failures=2, sliding_window_size=40_000))
    breaker.record(1_999.0, BAD)  # the end of a pane of 2,000 s, which leaves the window before the run ends
    assert breaker.counts(40_500.0).calls == 0
    assert not breaker.may_retire(40_500.0)
    assert breaker.may_retire(42_000.0)
