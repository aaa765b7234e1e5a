"""The rule of LiteLLM's router, as its source has it."""

from __future__ import annotations

import pytest

from tests.bench.fleet.contenders.litellm_cooldown import CooldownRule


def failures(rule, count, at=0.0, status=500):
    return [rule.failed(at, status) for _ in range(count)]


def test_five_failures_of_five_requests_cool():
    assert failures(CooldownRule(), 5) == [False, False, False, False, True]


def test_exactly_half_of_the_requests_is_not_enough():
    rule = CooldownRule()
    for _ in range(5):
        rule.succeeded(0.0)
    assert failures(rule, 6) == [False, False, False, False, False, True]


def test_counts_start_over_a_minute_after_the_first():
    rule = CooldownRule()
    failures(rule, 4, at=0.0)
    assert failures(rule, 1, at=60.5) == [False]
    assert failures(rule, 4, at=70.0) == [False, False, False, True]


@pytest.mark.parametrize("status", [401, 402, 404, 429])
def test_these_errors_cool_at_once(status):
    assert CooldownRule().failed(0.0, status)


@pytest.mark.parametrize("status", [400, 403, 409, 422])
def test_other_errors_of_the_caller_never_cool(status):
    assert not any(failures(CooldownRule(), 10, status=status))


def test_a_time_out_counts_like_an_error_of_the_server():
    assert failures(CooldownRule(), 5, status=408) == [False, False, False, False, True]
