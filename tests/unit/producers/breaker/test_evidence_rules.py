"""Each rule opens the circuit exactly at its threshold, and says so."""

import random

import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear_schemas.plain_policy import LOCAL_TOOLS
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT, BreakerPolicy, Cusum

OK = Result()
BAD = Result(ResultKind.FAILURE)
IGNORED = Result(ResultKind.IGNORED)


def breaker_of(**rules) -> Breaker:
    return Breaker("c", BreakerPolicy(**rules), 0.0)


def feed(breaker, *results):
    transitions = [breaker.record(0.0, result) for result in results]
    assert all(transition is None for transition in transitions[:-1])
    return transitions[-1]


def test_consecutive_failures_open_at_the_threshold():
    transition = feed(breaker_of(consecutive_failures=3), BAD, BAD, BAD)
    assert (transition.previous, transition.state) == ("closed", "open")
    cause = transition.cause
    assert (cause.rule, cause.value, cause.threshold, cause.sample) == ("consecutive_failures", 3, 3, 3)


def test_a_success_ends_a_run_of_failures_and_an_ignored_outcome_does_not():
    assert feed(breaker_of(consecutive_failures=3), BAD, BAD, OK, BAD, BAD) is None
    assert feed(breaker_of(consecutive_failures=3), BAD, BAD, IGNORED, BAD) is not None


def test_failures_in_the_window_open_at_the_count():
    transition = feed(breaker_of(failure_count=3), BAD, OK, BAD, OK, OK, BAD)
    assert (transition.cause.rule, transition.cause.value, transition.cause.sample) == ("failure_count", 3, 6)


def test_failures_that_left_the_window_do_not_count():
    breaker = breaker_of(failure_count=2, sliding_window_size=10)
    assert breaker.record(0.0, BAD) is None
    assert breaker.record(11.0, BAD) is None
    assert breaker.record(12.0, BAD) is not None


def test_the_rate_is_judged_from_the_minimum_number_of_calls_on_and_compares_at_or_above():
    breaker = breaker_of(failure_rate_threshold=0.5, minimum_number_of_calls=4)
    transition = feed(breaker, BAD, BAD, OK, OK)
    cause = transition.cause
    assert (cause.rule, cause.value, cause.threshold, cause.sample) == ("failure_rate", 0.5, 0.5, 4)


def test_a_rate_below_the_threshold_stays_closed():
    assert feed(breaker_of(failure_rate_threshold=0.5, minimum_number_of_calls=4), BAD, OK, OK, BAD) is not None
    assert feed(breaker_of(failure_rate_threshold=0.5, minimum_number_of_calls=5), BAD, OK, OK, BAD, OK) is None


def test_a_call_is_slow_when_it_took_more_than_the_threshold():
    rules = {"slow_call_duration_threshold_ms": 100, "slow_call_rate_threshold": 1.0, "minimum_number_of_calls": 2}
    assert feed(breaker_of(**rules), Result(duration_ms=100.0), Result(duration_ms=100.0)) is None
    transition = feed(breaker_of(**rules), Result(duration_ms=100.1), Result(duration_ms=100.1))
    assert (transition.cause.rule, transition.cause.value) == ("slow_call_rate", 1.0)


def test_tokens_of_failed_calls_add_up_and_those_of_successes_do_not():
    breaker = breaker_of(wasted_tokens=1000)
    feed(breaker, Result(tokens=5000), Result(ResultKind.FAILURE, tokens=999), Result(ResultKind.IGNORED, tokens=5000))
    transition = breaker.record(0.0, Result(ResultKind.FAILURE, tokens=1))
    assert (transition.cause.rule, transition.cause.value) == ("wasted_tokens", 1000)
    assert transition.counts.wasted_tokens == 1000


def test_any_of_several_rules_opens():
    rules = {"consecutive_failures": 100, "failure_count": 3, "cusum": Cusum()}
    assert feed(breaker_of(**rules), BAD, BAD, BAD).cause.rule == "failure_count"


def test_a_policy_without_rules_never_opens():
    breaker = breaker_of()
    for _ in range(1000):
        assert breaker.record(0.0, BAD) is None


def test_the_local_default_opens_at_the_fifth_failure_in_a_row():
    breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
    assert feed(breaker, BAD, BAD, BAD, BAD, BAD).open_until == 60.0


@pytest.mark.parametrize("policy", [LOCAL_DEFAULT, LOCAL_TOOLS], ids=["contract", "plain"])
def test_a_tool_that_fails_four_of_five_calls_opens_the_local_default_at_the_22nd(policy):
    breaker = Breaker("c", policy, 0.0)
    cause = feed(breaker, *([BAD] * 4 + [OK]) * 4, BAD, BAD).cause
    assert (cause.rule, cause.sample, cause.failed, cause.tolerable_failure_rate) == ("cusum", 22, 18, 0.3)


@pytest.mark.parametrize("gap_s", [0.01, 30.0, 3600.0])
def test_a_tool_that_fails_four_of_five_calls_opens_the_local_default_at_any_volume(gap_s):
    breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
    moves = [breaker.record(number * gap_s, OK if number % 5 == 4 else BAD) for number in range(22)]
    assert [move is not None for move in moves] == [False] * 21 + [True]


def test_a_tool_whose_callers_are_wrong_half_the_time_opens_the_local_default_by_runs_alone():
    breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
    assert not any(breaker.record(float(number), BAD if number % 2 else OK) for number in range(1_000))


def test_a_healthy_tool_with_one_failure_in_twenty_stays_closed_for_a_hundred_thousand_calls():
    draw = random.Random(3).random
    breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
    assert not any(breaker.record(number * 0.1, BAD if draw() < 0.05 else OK) for number in range(100_000))


def test_the_local_default_opens_a_family_only_if_more_than_one_tool_fails():
    one, both = (Breaker("family", LOCAL_FAMILY_DEFAULT, 0.0) for _ in range(2))
    for number in range(22):
        kind = ResultKind.SUCCESS if number % 5 == 4 else ResultKind.FAILURE
        one.record(0.0, Result(kind, tool="a"))
        both.record(0.0, Result(kind, tool="ab"[number % 2]))
    assert (one.state, both.state, both.cause.rule) == ("closed", "open", "cusum")


def test_the_fleet_default_opens_a_dead_tool_at_the_eighth_call_and_not_at_five_in_a_row():
    breaker = Breaker("c", FLEET_DEFAULT, 0.0)
    assert feed(breaker, *[BAD] * 8).cause.rule == "cusum"


def test_the_transition_carries_the_evidence_that_led_to_it():
    transition = feed(breaker_of(failure_count=2), OK, BAD, IGNORED, BAD)
    counts = transition.counts
    assert (counts.calls, counts.failed, counts.ignored, counts.total_calls, counts.total_failed) == (3, 2, 1, 3, 2)


@pytest.mark.parametrize("size", [10, 60, 3600])
def test_a_fixed_window_starts_empty_and_drops_late_results_of_the_last_one(size):
    breaker = breaker_of(failure_count=2, sliding_window_size=size, sliding_window_panes=1)
    late = breaker.try_acquire(size - 1.0)
    breaker.record(size - 0.5, BAD, breaker.try_acquire(size - 1.0))
    assert breaker.record(size + 0.5, BAD, late) is None
    assert breaker.counts(size + 0.5).calls == 0
    assert breaker.record(size + 0.6, BAD, breaker.try_acquire(size + 0.5)) is None
    assert breaker.record_event(size + 1.0, BAD, generation=0, lease_id=None, started_at=size - 2.0) is None
    assert breaker.record_event(size + 1.0, BAD, generation=0, lease_id=None, started_at=size + 0.9) is not None
