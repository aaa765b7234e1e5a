"""What the fleet's circuit says about a call."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from switchgear.follower.view import CircuitView, LeaseView, decode_view
from switchgear.guard.fleet_circuits import fleet_answer
from switchgear_schemas.circuit import Circuit, Lease

NOW = 1_800_000_000.0
ME = "me@host-1"


def view(
    state: str,
    *,
    until: float | None = None,
    leases: dict[str, float] | None = None,
    mode: str = "enforce",
    permits_left: int | None = 0,
) -> CircuitView:
    def at(seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    circuit = Circuit(
        circuit_id="t", tool_name="t", state=state, version=1, generation=1, changed_at=at(NOW - 60), mode=mode,
        open_until=None if until is None else at(until),
        leases=tuple(Lease(lease_id=f"lease of {who}", emitter_id=who, expires_at=at(when)) for who, when in (leases or {}).items()),
    )  # fmt: skip
    fields = circuit.to_dict() | {"permits_left": permits_left}
    if permits_left is None:
        del fields["permits_left"]
    return decode_view(json.dumps(fields).encode())


@pytest.mark.parametrize("state", ["closed", "disabled", "metrics_only"])
def test_a_closed_or_unenforced_fleet_circuit_passes(state):
    assert fleet_answer(view(state), NOW, ME) == "pass"


def test_an_open_fleet_circuit_refuses_until_its_wait_is_over_and_asks_then():
    assert fleet_answer(view("open", until=NOW + 0.001), NOW, ME) == "refuse"
    assert fleet_answer(view("open", until=NOW), NOW, ME) == "ask"
    assert fleet_answer(view("open", until=NOW - 100), NOW, ME) == "ask"


def test_an_open_fleet_circuit_without_open_until_asks_for_a_probe():
    assert fleet_answer(view("open"), NOW, ME) == "ask"


def test_a_forced_open_circuit_without_an_end_refuses():
    assert fleet_answer(view("forced_open"), NOW + 1e9, ME) == "refuse"


def test_a_forced_open_circuit_with_an_end_asks_after_it():
    assert fleet_answer(view("forced_open", until=NOW + 1), NOW, ME) == "refuse"
    assert fleet_answer(view("forced_open", until=NOW), NOW, ME) == "ask"


def test_the_mode_forced_open_refuses_whatever_the_state():
    assert fleet_answer(view("closed", mode="forced_open"), NOW, ME) == "refuse"
    assert fleet_answer(view("half_open", mode="forced_open"), NOW, ME) == "refuse"


def test_a_live_lease_of_this_process_permits_a_probe():
    verdict = fleet_answer(view("half_open", until=NOW - 1, leases={"other": NOW + 9, ME: NOW + 9}), NOW, ME)
    assert isinstance(verdict, LeaseView)
    assert verdict.lease_id == f"lease of {ME}"


def test_an_expired_lease_of_this_process_permits_nothing():
    assert fleet_answer(view("half_open", until=NOW - 1, leases={ME: NOW}), NOW, ME) == "ask"


def test_refuses_while_another_process_probes():
    assert fleet_answer(view("half_open", until=NOW - 1, leases={"other": NOW + 9}), NOW, ME) == "refuse"


def test_asks_for_a_probe_when_the_lease_of_another_process_expired():
    assert fleet_answer(view("half_open", until=NOW - 1, leases={"other": NOW - 1}), NOW, ME) == "ask"
    assert fleet_answer(view("half_open", until=NOW - 1), NOW, ME) == "ask"


def test_asks_for_a_probe_while_others_probe_and_permits_are_left():
    assert fleet_answer(view("half_open", until=NOW - 1, leases={"other": NOW + 9}, permits_left=2), NOW, ME) == "ask"


def test_a_live_lease_of_this_process_goes_before_asking_for_another():
    found = fleet_answer(view("half_open", until=NOW - 1, leases={ME: NOW + 9}, permits_left=2), NOW, ME)
    assert isinstance(found, LeaseView)


def test_a_record_without_permits_left_allows_one_probe_at_a_time():
    circuit = view("half_open", until=NOW - 1, leases={"other": NOW + 9}, permits_left=None)
    assert circuit.permits_left == 0
    assert fleet_answer(circuit, NOW, ME) == "refuse"


def test_a_forced_open_circuit_refuses_even_if_permits_are_left():
    assert fleet_answer(view("half_open", mode="forced_open", permits_left=2), NOW, ME) == "refuse"
