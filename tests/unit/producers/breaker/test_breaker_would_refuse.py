"""``would_refuse`` and ``open_at`` give the breaker's answer at an instant. They apply timers, and change nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy

BAD = Result(ResultKind.FAILURE, retry_after_s=30.0)
RULES = [
    {},
    {"permitted_number_of_calls_in_half_open_state": 2, "success_threshold_to_close": 2},
    {"permitted_number_of_calls_in_half_open_state": 3, "half_open_decision": "rate", "failure_rate_threshold": 0.5},
    {"backoff_multiplier": 2, "jitter": 0.5},
    {"mode": "metrics_only"},
    {"mode": "forced_open"},
]
STEPS = st.one_of(
    st.sampled_from(["acquire", "release", "force_open", "close", "auto"]),
    st.sampled_from([Result(), BAD, Result(ResultKind.IGNORED)]),
)
SECONDS = st.sampled_from([0.0, 0.5, 5.0, 10.0, 20.0, 25.0, 35.0, -3.0, -50.0])


def made(**rules) -> Breaker:
    waits = {"wait_duration_in_open_state_s": 10, "max_wait_duration_in_half_open_state_s": 20}
    return Breaker("c", BreakerPolicy(**{"consecutive_failures": 1, **waits, **rules}), 10_000.0)


def step_of(breaker, step, now, permits):
    if step == "acquire":
        answer = breaker.try_acquire(now)
        if isinstance(answer, BreakerPermit):
            permits.append(answer)
    elif step == "release":
        if permits:
            breaker.release(permits.pop(), now)
    elif isinstance(step, Result):
        breaker.record(now, step, permits.pop(0) if permits else None)
    else:
        breaker.command(step, now, actor="ana", until=now + 30 if step == "force_open" and len(permits) % 2 else None)


@pytest.mark.slow
@given(st.sampled_from(RULES), st.lists(st.tuples(SECONDS, STEPS), max_size=12), SECONDS)
def test_would_refuse_agrees_with_try_acquire_and_only_applies_timers(rules, life, later):
    breaker, now = made(**rules), 10_000.0
    permits: list[BreakerPermit] = []
    for passed, step in life:
        now += passed
        step_of(breaker, step, now, permits)
    now += later
    breaker.advance(now)
    before = breaker.snapshot()
    refuses, open_at = breaker.would_refuse(now), breaker.open_at(now)
    assert breaker.snapshot() == before
    answer = breaker.try_acquire(now)
    assert refuses == isinstance(answer, BreakerRejection)
    if open_at is not None:
        assert (breaker.state, (breaker.changed_at, breaker.open_until)) == ("open", open_at)
    assert (breaker.state == "open") == (open_at is not None)


def test_would_refuse_while_all_half_open_permits_are_taken():
    breaker = made(permitted_number_of_calls_in_half_open_state=2, success_threshold_to_close=2)
    breaker.record(10_000, BAD)
    assert breaker.would_refuse(10_029)
    assert not breaker.would_refuse(10_030)
    first, second = breaker.try_acquire(10_030), breaker.try_acquire(10_030)
    assert breaker.would_refuse(10_031)
    breaker.record(10_031, Result(), first)
    assert breaker.would_refuse(10_031), "the other one may still bring the verdict"
    breaker.release(second, 10_032)
    assert not breaker.would_refuse(10_032)


def test_open_at_treats_an_expired_half_open_stay_as_open():
    breaker = made(honor_retry_after=False)
    breaker.record(10_000, BAD)
    breaker.try_acquire(10_010)
    assert breaker.open_at(10_029.9) is None
    assert breaker.would_refuse(10_029.9)
    assert breaker.open_at(10_030) == (10_030, pytest.approx(10_040))
    assert [breaker.would_refuse(now) for now in (10_039, 10_040)] == [True, False]
    assert breaker.state == "open"
