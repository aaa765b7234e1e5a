"""Commands that can't be carried out are refused; a circuit record is whole and reads back as written."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from switchgear_schemas import BreakerPolicy, Cause, Circuit, Command, Counts, Lease
from tests.support.table import table

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_command_needs_an_actor():
    with pytest.raises(ValidationError, match="actor"):
        Command.model_validate({"tool_name": "t", "verb": "close"})


@table(
    "wrong",
    [
        {"verb": "set_policy"},
        {"verb": "close", "policy": BreakerPolicy()},
        {"verb": "close", "until": NOON},
        {"verb": "explode"},
        {"verb": "reset", "until": NOON},
        {"verb": "set_policy", "policy": BreakerPolicy(), "circuit_id": "t|user=u"},
        {"verb": "close", "circuit_id": ""},
        {"verb": "close", "colour": "red"},
        {"verb": "set_policy", "policy": {"fallback": ["u", "t"]}},
        {"verb": "set_policy", "policy": {"sliding_window_size": 1e-9}},
        {"verb": "set_policy", "policy": {"consecutive_failures": True}},
    ],
)
def test_an_incomplete_or_contradicting_command_is_refused(wrong):
    with pytest.raises(ValidationError):
        Command.model_validate({"tool_name": "t", "actor": "ops", **wrong})


def test_two_commands_never_share_an_id():
    first, second = (Command(tool_name="t", verb="close", actor="ops") for _ in range(2))
    assert first.command_id != second.command_id


def test_a_command_reads_back_as_written():
    command = Command(tool_name="t", verb="force_open", actor="ops", reason="maintenance", until=NOON)
    assert Command.model_validate_json(command.model_dump_json()) == command


def test_the_message_of_a_command_holds_what_its_policy_names_and_the_rest():
    command = Command(tool_name="t", verb="set_policy", actor="ops", policy=BreakerPolicy(failure_count=3, cusum=None))
    sent = json.loads(command.to_bytes())
    assert sent["policy"] == {"failure_count": 3, "cusum": None}
    read = Command.model_validate_json(command.to_bytes())
    assert read == command
    assert read.policy is not None
    assert read.policy.model_fields_set == {"failure_count", "cusum"}


@pytest.mark.parametrize("verb", ["force_open", "disable", "metrics_only"])
def test_force_open_disable_and_metrics_only_may_have_an_end(verb):
    command = Command(tool_name="t", verb=verb, actor="ops", until=NOON, circuit_id="t|user=u")
    assert Command.model_validate_json(command.to_bytes()) == command


def test_a_record_of_an_older_worker_has_no_permits_left():
    circuit = Circuit(circuit_id="t", tool_name="t", state="half_open", version=1, generation=1, changed_at=NOON)
    old = circuit.model_dump_json(exclude={"permits_left", "stands_until"})
    assert Circuit.model_validate_json(old) == circuit
    assert circuit.permits_left == 0


def test_a_record_of_an_older_worker_admits_every_call():
    circuit = Circuit(circuit_id="t", tool_name="t", state="closed", version=1, generation=1, changed_at=NOON)
    assert Circuit.model_validate_json(circuit.model_dump_json(exclude={"admitted_share"})).admitted_share == 1


def test_a_record_of_an_older_worker_knows_no_targets_and_no_limit_of_lateness():
    circuit = Circuit(circuit_id="t", tool_name="t", state="closed", version=1, generation=1, changed_at=NOON)
    assert Circuit.model_validate_json(circuit.model_dump_json(exclude={"target", "overdue_after_ms"})) == circuit
    assert (circuit.target, circuit.overdue_after_ms) == (None, None)


def test_a_circuit_reads_back_as_written():
    circuit = Circuit(
        circuit_id="t",
        tool_name="t",
        state="half_open",
        previous_state="open",
        version=9,
        generation=4,
        cause=Cause(rule="probe_requested"),
        changed_at=NOON,
        open_until=NOON,
        attempt=2,
        leases=(Lease(lease_id="l", emitter_id="e", expires_at=NOON),),
        counts=Counts(calls=20, failed=12),
        fallback=("other",),
    )
    assert Circuit.model_validate_json(circuit.model_dump_json()) == circuit


def test_unknown_fields_of_a_circuit_record_are_ignored():
    written = {"circuit_id": "t", "tool_name": "t", "state": "open", "version": 1, "generation": 1, "changed_at": NOON}
    assert Circuit.model_validate({**written, "mood": "sour"}).state == "open"


def test_the_version_of_a_circuit_starts_at_one():
    with pytest.raises(ValidationError, match="version"):
        Circuit(circuit_id="t", tool_name="t", state="open", version=0, generation=0, changed_at=NOON)


def test_a_wrong_value_in_a_cause_is_refused_with_its_place():
    written = {"circuit_id": "t", "tool_name": "t", "state": "open", "version": 1, "generation": 1, "changed_at": NOON}
    with pytest.raises(ValidationError, match=r"Expected `int | null`, got `str` - at `\$\.sample`") as refused:
        Circuit.model_validate({**written, "cause": {"rule": "cusum", "sample": "many"}})
    assert refused.value.errors()[0]["loc"] == ("cause",)
