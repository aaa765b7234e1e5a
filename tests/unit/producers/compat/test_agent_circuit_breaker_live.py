"""AgentCircuitBreaker: threshold and cooldown are live, as in the pattern, whose every call reads them."""

from __future__ import annotations

import pytest

from switchgear.compat.agent_circuit_breaker import AgentCircuitBreaker
from switchgear.guard.rejections import CircuitOpenError
from switchgear_schemas.errors import SettingsError

now = [0.0]


def fail(breaker, times=1):
    for _ in range(times):
        with pytest.raises(ValueError, match="invalid literal"):
            breaker.call(int, "x")


def refused(breaker):
    with pytest.raises(CircuitOpenError) as found:
        breaker.call(int, "x")
    return found.value


@pytest.fixture
def breaker():
    now[0] = 1_000.0
    return AgentCircuitBreaker(failure_threshold=3, cooldown_seconds=60, clock=lambda: now[0])


def test_a_lower_threshold_opens_at_the_next_failure(breaker):
    fail(breaker, 2)
    breaker.threshold = 1
    assert (breaker.threshold, breaker.state) == (1, "closed")
    fail(breaker)
    assert (breaker.state, breaker.failure_count) == ("open", 3)
    assert "of 1 failures" in repr(breaker)


def test_a_higher_threshold_bears_more(breaker):
    fail(breaker, 2)
    breaker.threshold = 5
    fail(breaker, 2)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


def test_a_cooldown_holds_for_the_next_opening_and_is_the_one_in_the_message(breaker):
    breaker.cooldown = 5
    fail(breaker, 3)
    error = refused(breaker)
    assert (breaker.cooldown, error.message, error.retry_after_s) == (5, "Circuit open — tool disabled for 5s", 5.0)
    now[0] += 5
    assert breaker.call(int, "1") == 1


@pytest.mark.parametrize("cooldown", [30, 90])
def test_of_an_open_circuit_it_is_the_time_since_it_opened(breaker, cooldown):
    fail(breaker, 3)
    now[0] += 20
    breaker.cooldown = cooldown
    assert (refused(breaker).retry_after_s, breaker.opened_at) == (cooldown - 20, 1_000.0)
    now[0] = 1_000.0 + cooldown
    assert breaker.call(int, "1") == 1
    assert breaker.state == "closed"


def test_one_that_is_over_already_lets_a_probe_go_at_once(breaker):
    fail(breaker, 3)
    now[0] += 20
    breaker.cooldown = 10
    assert breaker.call(int, "1") == 1


def test_a_probe_that_is_out_stays_the_only_one_and_its_failure_waits_anew(breaker):
    fail(breaker, 3)
    now[0] += 60

    def probe():
        breaker.cooldown, breaker.threshold = 7, 9
        assert refused(breaker).state == "half_open"
        raise ValueError("invalid literal")

    with pytest.raises(ValueError, match="invalid literal"):
        breaker.call(probe)
    assert refused(breaker).retry_after_s == 7.0


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("threshold", 0), ("threshold", True), ("threshold", "3"), ("cooldown", -1), ("cooldown", None)],
)
def test_what_is_impossible_is_named_and_changes_nothing(breaker, attribute, value):
    with pytest.raises(SettingsError, match=f"^{attribute} is a"):
        setattr(breaker, attribute, value)
    assert (breaker.threshold, breaker.cooldown) == (3, 60)
