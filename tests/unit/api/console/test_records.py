from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from switchgear.follower.view import decode_view
from switchgear_api.console.records import advice, circuit_part, iso, no_circuit, stored_record
from switchgear_schemas.circuit import Cause, Circuit, Lease
from switchgear_schemas.pacing import Pace, RateLimit
from tests.support.table import table

NOW = datetime(2026, 11, 26, 2, 0, 0, 123456, tzinfo=UTC)


def recorded(**fields):
    given = {
        "circuit_id": "web",
        "tool_name": "web",
        "state": "closed",
        "version": 3,
        "generation": 2,
        "changed_at": NOW,
    } | fields
    return decode_view(Circuit(**given).to_bytes())


def test_open_circuit_says_why_when_it_probes_and_who_holds_the_lease():
    cause = Cause(rule="failure_rate", value=0.75, threshold=0.5, sample=8, failed=6, reporters=2)
    lease = Lease(lease_id="l", emitter_id="host-7", expires_at=NOW + timedelta(seconds=30))
    part = circuit_part(
        recorded(state="open", cause=cause, leases=(lease,), open_until=NOW + timedelta(seconds=5), last_error="X: y")
    )
    assert part["why"] == "6 of the last 8 calls failed (75 %; the limit is 50 %); reported by at least 2 processes."
    assert (part["since"], part["next_probe_at"]) == ("2026-11-26T02:00:00.123Z", "2026-11-26T02:00:05.123Z")
    assert part["lease"] == {"holder": "host-7", "expires_at": "2026-11-26T02:00:30.123Z"}
    assert (part["override"], part["expires_at"], part["ramp"], part["last_error"]) == (None, None, None, "X: y")


def test_pace_says_the_limit_the_demand_and_the_waits():
    limit = RateLimit(
        credential="", rate=2.0, granted=1.5, period_s=60.0, asked=20, until=NOW, limited=1, refused=4, waited=5, waited_s=2.5,
        paused_until=NOW,
    )  # fmt: skip
    part = circuit_part(recorded(pace=Pace("enforce", 5.0, (limit,)), active_processes=20))
    assert part["pace"] == {
        "kept": True,
        "rate": 2.0,
        "period_s": 60.0,
        "processes": 20,
        "asked": 4.0,
        "limited": 1,
        "refused": 4,
        "waited": 5,
        "wait_s": 0.5,
        "paused_until": "2026-11-26T02:00:00.123Z",
    }
    assert circuit_part(recorded())["pace"] is None


@pytest.mark.parametrize(
    ("state", "command"),
    [
        ("forced_open", "force_open"),
        ("disabled", "disable"),
        ("metrics_only", "metrics_only"),
        ("open", "force_open"),
    ],
)
def test_state_of_a_command_names_the_command_its_actor_and_its_end(state, command):
    cause = Cause(rule="command", actor="ada", reason="drill")
    part = circuit_part(recorded(state=state, cause=cause, stands_until=NOW + timedelta(hours=1)))
    assert part["override"] == {"command": command, "actor": "ada", "reason": "drill", "at": "2026-11-26T02:00:00.123Z"}
    assert part["expires_at"] == "2026-11-26T03:00:00.123Z"
    assert "auto" in advice(part, None)


def test_circuit_that_an_operator_closed_has_no_override():
    assert circuit_part(recorded(cause=Cause(rule="command", actor="ada")))["override"] is None


def test_recovering_circuit_shows_the_admitted_share():
    part = circuit_part(recorded(admitted_share=0.25))
    assert part["ramp"] == 0.25
    assert "recovers" in advice(part, None)


def test_tool_without_a_record_has_the_same_fields_as_one_with_a_record():
    assert no_circuit("web", None).keys() == circuit_part(recorded()).keys()


def test_stored_row_and_record_of_the_topic_give_the_same_circuit():
    circuit = Circuit(
        circuit_id="web", tool_name="web", state="open", version=3, generation=2, changed_at=NOW, previous_state="closed",
        cause=Cause(rule="consecutive_failures", value=3, threshold=3, sample=3),
    )  # fmt: skip
    row = msgspec.structs.asdict(circuit) | {
        "cause": msgspec.structs.asdict(circuit.cause),
        "leases": [],
        "fallback": [],
    }
    row.pop("stands_until")
    row.pop("permits_left")
    assert circuit_part(stored_record(row)) == circuit_part(decode_view(circuit.to_bytes()))


@table(
    ("state", "kind", "word"),
    [("open", "down", "probe"), ("open", "rejects_arguments", "arguments"), ("closed", "rejects_arguments", "arguments"),
     ("closed", "down", "closed"), ("half_open", "down", "Wait")],
)  # fmt: skip
def test_advice_fits_the_state_and_the_kind_of_failure(state, kind, word):
    assert word in advice(circuit_part(recorded(state=state)), kind)


def test_healthy_tool_needs_no_advice():
    assert advice(circuit_part(recorded()), None) is None


def test_time_without_a_zone_is_utc():
    assert iso(datetime(2026, 1, 1)) == iso(1767225600) == "2026-01-01T00:00:00.000Z"  # noqa: DTZ001
    assert iso(None) is None
