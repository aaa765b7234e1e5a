"""What the event of a refused call says about what refused it."""

from __future__ import annotations

from typing import Any

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from switchgear.testing import InMemoryFleet

TWO = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60)


@pytest.fixture
def fleet():
    return InMemoryFleet()


def planner(fleet, policy=TWO) -> Switchgear:
    return fleet.gear("planner", local_policies=policy)


def fail(gear, times=2, tool="t", **caller):
    for _ in range(times):
        gear.try_acquire(tool, **caller).failure(ConnectionError("no route to 10.0.0.7"))


def refusals(fleet, gear, tool="t") -> list[dict[str, Any]]:
    gear.flush()
    return [event for event in fleet.events(tool) if event["status"] == "rejected"]


def test_a_refusal_by_the_processs_own_circuit_names_its_state_cause_and_wait(fleet):
    gear = planner(fleet)
    fail(gear)
    fleet.advance(20)
    assert not gear.try_acquire("t")
    (event,) = refusals(fleet, gear)
    assert event["metadata"] == {
        "refused": 1, "refused_by": "local", "state": "open", "scope": "tool", "retry_after_s": 40.0,
        "last_error": "ConnectionError: no route to 10.0.0.7",
        "cause": {"rule": "consecutive_failures", "value": 2.0, "threshold": 2.0, "sample": 2, "failed": 2},
    }  # fmt: skip


def test_the_fast_path_reports_the_same_refusal_as_the_full_path(fleet):
    gear = planner(fleet)

    @gear.guard("t")
    def call() -> None:
        raise ConnectionError("no route to 10.0.0.7")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            call()
    for _ in range(5):
        with pytest.raises(CircuitOpenError):
            call()
    fleet.advance(2)
    first, rest = (event["metadata"] for event in refusals(fleet, gear))
    assert (first["refused"], rest["refused"]) == (1, 4)
    assert first["cause"] == rest["cause"]
    assert first["refused_by"] == rest["refused_by"] == "local"


def test_a_sum_carries_the_instant_of_its_last_refusal_and_not_of_its_sending(fleet):
    gear = planner(fleet)
    fail(gear)
    for _ in range(3):
        gear.try_acquire("t")
    last = fleet.clock.wall()
    fleet.advance(5)
    recorded = {event["metadata"]["refused"]: event["recorded_at"] for event in refusals(fleet, gear)}
    assert recorded[2] == recorded[1]
    assert last == fleet.clock.wall() - 5


def test_a_refusal_by_the_fleets_circuit_carries_its_source_alone(fleet):
    gear = planner(fleet)
    fleet.open_circuit("t", for_s=60)
    assert not gear.try_acquire("t")
    (event,) = refusals(fleet, gear)
    assert event["metadata"] == {"refused": 1, "refused_by": "fleet"}
    assert event["generation"] == 1


def test_a_refusal_by_a_session_limit_carries_no_circuit_state(fleet):
    gear = planner(fleet)
    with gear.session("s1", max_calls=1):
        gear.try_acquire("t").success()
        assert not gear.try_acquire("t")
    (event,) = refusals(fleet, gear)
    assert event["metadata"] == {"refused": 1, "refused_by": "session"}


def test_a_refusal_by_a_sessions_own_circuit_has_the_scope_session(fleet):
    gear = planner(fleet)
    with gear.session("s1"):
        fail(gear)
        assert not gear.try_acquire("t")
    assert gear.try_acquire("t"), "the process's own circuit is closed"
    (event,) = refusals(fleet, gear)
    assert (event["metadata"]["refused_by"], event["metadata"]["scope"], event["session_id"]) == (
        "local", "session", "s1",
    )  # fmt: skip


@pytest.mark.parametrize(("scope", "caller"), [("user", {"user_id": "ana"}), ("session", {"session_id": "s1"})])
def test_a_refusal_carries_the_scope_of_its_circuit(fleet, scope, caller):
    gear = planner(fleet, TWO.model_copy(update={"scope": scope}))
    fail(gear, **caller)
    assert not gear.try_acquire("t", **caller)
    assert gear.try_acquire("t"), "the tool's own circuit is closed"
    (event,) = refusals(fleet, gear)
    assert event["metadata"]["scope"] == scope
    assert caller.items() <= event.items()


def test_a_refusal_by_a_half_open_local_circuit_says_half_open(fleet):
    gear = planner(fleet)
    fail(gear)
    fleet.advance(61)
    assert gear.try_acquire("t"), "the probe"
    assert not gear.try_acquire("t")
    (event,) = refusals(fleet, gear)
    assert event["metadata"]["state"] == "half_open"
    assert "retry_after_s" not in event["metadata"]
    assert event["metadata"]["cause"] == {"rule": "wait_elapsed"}
