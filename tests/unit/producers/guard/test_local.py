"""The process's own breakers are bounded, and no invented name makes a failing tool forgotten."""

from __future__ import annotations

from switchgear.breaker import Outcome, Result
from switchgear.guard.local import LocalBreakers, policy_of
from switchgear_schemas.policy import LOCAL_DEFAULT, BreakerPolicy


def breakers(limit: int) -> LocalBreakers:
    return LocalBreakers(BreakerPolicy(consecutive_failures=2), lambda: 0.0, limit=limit)


def fail(local: LocalBreakers, tool: str, times: int) -> None:
    for _ in range(times):
        local.get(tool).breaker.record(0.0, Result(Outcome.FAILURE))


def test_a_tool_keeps_its_breaker():
    local = breakers(10)
    assert local.get("a") is local.get("a")
    assert local.get("a") is not local.get("b")


def test_past_the_limit_breakers_without_evidence_go():
    local = breakers(3)
    for tool in "abc":
        local.get(tool)
    local.get("d")
    assert set(local.circuits) == {"d"}


def test_a_breaker_that_is_open_or_counting_is_never_given_up():
    local = breakers(3)
    fail(local, "open", 2)
    fail(local, "counting", 1)
    for number in range(100):
        local.get(f"invented {number}")
    assert {"open", "counting"} <= set(local.circuits)
    assert len(local.circuits) <= 3
    assert local.get("open").breaker.state == "open"


def test_when_all_are_needed_a_new_name_goes_unguarded():
    local = breakers(2)
    fail(local, "a", 1)
    fail(local, "b", 1)
    assert local.get("c").breaker.state == "closed"
    assert set(local.circuits) == {"a", "b"}


def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent():
    local = breakers(2)
    held = local.get("a").lock
    held.acquire()
    local.forked()
    assert local.get("a").lock.acquire(timeout=1)


def test_the_last_error_is_redacted_once_and_again_when_it_changes():
    circuit = breakers(1).get("a")
    assert circuit.shown_error() is None
    circuit.last_error = "token=abcdefgh123"
    assert circuit.shown_error() == "token=[redacted]"
    assert circuit.shown_error() is circuit.shown_error()
    circuit.last_error = "other"
    assert circuit.shown_error() == "other"


def test_every_form_of_policies_is_a_look_up():
    own = BreakerPolicy(consecutive_failures=1)
    assert policy_of(None)("a") == LOCAL_DEFAULT
    assert policy_of(own)("a") is own
    assert policy_of({"a": own})("a") is own
    assert policy_of({"a": own})("b") == LOCAL_DEFAULT
    assert policy_of(lambda _tool: own)("a") is own
