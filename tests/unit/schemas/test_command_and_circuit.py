"""Commands that can't be carried out are refused; a circuit record is whole and reads back as written."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from switchgear_schemas import BreakerPolicy, Cause, Circuit, Command, Counts, Lease

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_command_needs_an_actor():
    with pytest.raises(ValidationError, match="actor"):
        Command.model_validate({"tool_name": "t", "verb": "close"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "set_policy"},
        {"verb": "close", "policy": BreakerPolicy()},
        {"verb": "close", "until": NOON},
        {"verb": "explode"},
        {"verb": "close", "colour": "red"},
    ],
    ids=str,
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


def test_a_reader_of_today_survives_the_fields_of_tomorrow():
    written = {"circuit_id": "t", "tool_name": "t", "state": "open", "version": 1, "generation": 1, "changed_at": NOON}
    assert Circuit.model_validate({**written, "mood": "sour"}).state == "open"


def test_a_version_starts_at_one():
    with pytest.raises(ValidationError, match="version"):
        Circuit(circuit_id="t", tool_name="t", state="open", version=0, generation=0, changed_at=NOON)
