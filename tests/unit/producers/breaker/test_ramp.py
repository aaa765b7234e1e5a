"""The pure part of the recovery by degrees: which calls go, and which step is due."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker.ramp import AFTER_RETRY_AFTER, Ramp, admits, in_words, phase_of, shares_of
from switchgear_schemas import BreakerPolicy
from tests.support.table import table

POLICY = BreakerPolicy(recovery_ramp=(0.1, 0.25, 0.5), recovery_ramp_step_s=10)
shares = st.floats(0.001, 1, exclude_max=True)
phases = st.floats(0, 1, exclude_max=True)


@pytest.mark.slow
@given(shares, phases, st.integers(0, 10_000), st.integers(0, 3_000))
def test_admits_the_share_of_any_calls_in_a_row_to_within_one_call(share, phase, first, length):
    admitted = sum(admits(n, share, phase) for n in range(first + 1, first + length + 1))
    assert abs(admitted - length * share) < 1 + 1e-6


@pytest.mark.slow
@given(shares, phases, st.integers(1, 1_000))
def test_admits_the_same_calls_each_time_and_none_twice(share, phase, n):
    assert admits(n, share, phase) == admits(n, share, phase)
    assert sum(admits(each, share, phase) for each in range(1, n + 1)) == math.floor(n * share + phase)


@pytest.mark.slow
@given(phases, st.integers(1, 10_000))
def test_admits_every_call_where_the_share_is_all(phase, n):
    assert admits(n, 1.0, phase)


@pytest.mark.slow
@given(phases, st.integers(1, 500))
def test_a_larger_share_never_admits_fewer_calls(phase, length):
    counts = [sum(admits(n, share, phase) for n in range(1, length + 1)) for share in (0.1, 0.25, 0.5, 0.75)]
    assert counts == sorted(counts)


@pytest.mark.slow
def test_processes_that_make_one_call_each_admit_the_share_together():
    rng = random.Random(1)
    names = [f"service-{rng.getrandbits(48):012x}" for _ in range(20_000)]
    for share in (0.1, 0.25, 0.5):
        admitted = sum(admits(1, share, phase_of(name)) for name in names)
        assert admitted / len(names) == pytest.approx(share, abs=0.01)


def test_the_phase_of_a_process_is_a_number_from_zero_to_below_one_and_stays():
    assert phase_of("") == 0
    assert 0 <= phase_of("a lone surrogate \ud800") < 1
    assert phase_of("123456789") == pytest.approx(0xCBF43926 / 2**32), "CRC-32 as everywhere"


@pytest.mark.parametrize(
    ("share", "words"), [(0.1, "10 %"), (0.25, "25 %"), (1 / 3, "33.33 %"), (0.005, "0.5 %")], ids=str
)
def test_a_refusal_names_the_share_in_percent(share, words):
    assert in_words(share) == in_words(share, "calmer") == f"recovery: {words} of calls are admitted"
    assert in_words(share, AFTER_RETRY_AFTER) == f"{in_words(share)}, because the tool sent Retry-After"


def test_each_step_lasts_as_long_as_the_policy_says():
    ramp = Ramp.begin(POLICY, 1000.0)
    assert ramp is not None
    seen = {1000.0 + second: ramp.climb(POLICY, 1000.0 + second) for second in range(31)}
    assert {at: share for at, share in seen.items() if share is not None} == {1010: 0.25, 1020: 0.5, 1030: 1.0}


def test_several_steps_that_are_due_at_once_are_one():
    ramp = Ramp.begin(POLICY, 0.0)
    assert ramp is not None
    assert ramp.climb(POLICY, 25.0) == 0.5
    assert ramp.rest_of_step_s(POLICY, 25.0) == 5
    late = Ramp.begin(POLICY, 0.0)
    assert late is not None
    assert not late.over(POLICY, 29.999)
    assert late.over(POLICY, 1e9)
    assert late.climb(POLICY, 1e9) == 1.0


def test_a_policy_without_a_ramp_begins_none():
    assert Ramp.begin(BreakerPolicy(), 0.0) is None
    assert Ramp.begin(BreakerPolicy(), 0.0, rate_limited=True) is None


def test_the_shares_are_those_of_every_recovery_else_those_after_retry_after_unless_the_policy_ignores_it():
    def shares(rate_limited, **rules):
        return shares_of(BreakerPolicy(retry_after_ramp=(0.4,), **rules), rate_limited=rate_limited)

    assert shares(True) == (0.4,)
    assert shares(False) == shares(True, honor_retry_after=False) == ()
    assert shares(True, recovery_ramp=(0.2, 0.3)) == shares(False, recovery_ramp=(0.2, 0.3)) == (0.2, 0.3)


def test_the_share_never_falls_when_the_policy_changes():
    ramp = Ramp.begin(POLICY, 0.0)
    assert ramp is not None
    ramp.climb(POLICY, 20.0)
    gentle = BreakerPolicy(recovery_ramp=(0.01, 0.02, 0.03, 0.9))
    assert ramp.follow(gentle) is ramp
    assert ramp.share == 0.5
    assert ramp.climb(gentle, 20.0) is None, "its third step has a smaller share"
    assert ramp.share == 0.5
    assert ramp.climb(gentle, 30.0) == 0.9
    assert ramp.follow(POLICY) is None, "it has three steps, and this was the fourth"
    assert ramp.follow(BreakerPolicy()) is None


@table(("failed", "calls", "breaches"), [(4, 4, False), (2, 5, False), (3, 5, True), (3, 6, True), (3, 7, False)])
def test_half_of_at_least_five_calls_must_fail(failed, calls, breaches):
    ramp = Ramp.begin(POLICY, 0.0)
    assert ramp is not None
    for number in range(calls):
        ramp.add(failed=number < failed)
    cause = ramp.breach(POLICY)
    assert (cause is not None) == breaches
    if cause is not None:
        found = (cause.rule, cause.value, cause.threshold, cause.sample, cause.failed)
        assert found == ("recovery_failed", failed / calls, 0.5, calls, failed)


def test_the_policys_failure_rate_decides_if_it_has_one():
    strict = BreakerPolicy(recovery_ramp=(0.5,), failure_rate_threshold=0.2)
    ramp = Ramp.begin(strict, 0.0)
    assert ramp is not None
    for number in range(5):
        ramp.add(failed=number == 0)
    assert ramp.breach(strict) is not None
    assert ramp.breach(POLICY) is None
