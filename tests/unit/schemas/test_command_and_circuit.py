"""Commands that can't be carried out are refused; a circuit record is whole and reads back as written."""

import json
from datetime import UTC, datetime

import pytest

from switchgear_schemas import BreakerPolicy, Cause, Circuit, Command, Counts, InvalidExecutionError, Lease
from tests.support.table import table

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_command_needs_an_actor():
    with pytest.raises(InvalidExecutionError, match=r"^actor: "):
        Command.from_dict({"tool_name": "t", "verb": "close"})


@table(
    ("wrong", "field"),
    [
        ({"verb": "set_policy"}, ""),
        ({"verb": "close", "policy": {}}, ""),
        ({"verb": "close", "until": "2026-01-01T12:00:00Z"}, ""),
        ({"verb": "force_open", "until": "1999-01-01T12:00:00Z"}, ""),
        ({"verb": "force_open", "until": "2026-01-01T12:00:00"}, "until"),
        ({"verb": "force_open", "until": 1_800_000_000}, "until"),
        ({"verb": "explode"}, "verb"),
        ({"verb": "reset", "until": "2026-01-01T12:00:00Z"}, ""),
        ({"verb": "set_policy", "policy": {}, "circuit_id": "t|user=u"}, ""),
        ({"verb": "close", "circuit_id": ""}, "circuit_id"),
        ({"verb": "close", "colour": "red"}, "colour"),
        ({"verb": "close", "reason": "x" * 1_001}, "reason"),
        ({"verb": "close", "tool_name": ""}, "tool_name"),
        ({"verb": "close", "command_id": 7}, "command_id"),
        ({"verb": "set_policy", "policy": {"fallback": ["u", "t"]}}, ""),
        ({"verb": "set_policy", "policy": {"sliding_window_size": 1e-9}}, "policy.sliding_window_size"),
        ({"verb": "set_policy", "policy": {"consecutive_failures": True}}, "policy.consecutive_failures"),
        ({"verb": "set_policy", "policy": {"colour": "red"}}, "policy.colour"),
        ({"verb": "set_policy", "policy": {"slow_call_duration_threshold_ms": 5}}, "policy"),
        ({"verb": "set_policy", "policy": "none"}, "policy"),
    ],
)
def test_an_incomplete_or_contradicting_command_is_refused_with_its_place(wrong, field):
    fields = {"tool_name": "t", "actor": "ops", **wrong}
    with pytest.raises(InvalidExecutionError) as from_values:
        Command.from_dict(fields)
    with pytest.raises(InvalidExecutionError) as from_json:
        Command.from_bytes(json.dumps(fields).encode())
    for refused in (from_values.value, from_json.value):
        assert refused.field == field
        assert refused.reason.isprintable()


def test_a_command_s_constructor_refuses_fields_that_contradict_each_other():
    with pytest.raises(ValueError, match="policy is required by set_policy"):
        Command(tool_name="t", verb="set_policy", actor="ops")


def test_two_commands_never_share_an_id():
    first, second = (Command(tool_name="t", verb="close", actor="ops") for _ in range(2))
    assert first.command_id != second.command_id


def test_a_command_reads_back_as_written():
    command = Command(tool_name="t", verb="force_open", actor="ops", reason="maintenance", until=NOON)
    assert Command.from_bytes(command.to_bytes()) == command


def test_the_message_of_a_command_holds_what_its_policy_names_and_the_rest():
    command = Command(tool_name="t", verb="set_policy", actor="ops", policy=BreakerPolicy(failure_count=3, cusum=None))
    sent = json.loads(command.to_bytes())
    assert sent["policy"] == {"failure_count": 3, "cusum": None}
    read = Command.from_bytes(command.to_bytes())
    assert read == command
    assert read.policy is not None
    assert read.policy.model_fields_set == {"failure_count", "cusum"}


@pytest.mark.parametrize("verb", ["force_open", "disable", "metrics_only"])
def test_force_open_disable_and_metrics_only_may_have_an_end(verb):
    command = Command(tool_name="t", verb=verb, actor="ops", until=NOON, circuit_id="t|user=u")
    assert Command.from_bytes(command.to_bytes()) == command


def circuit(**fields):
    given = {"circuit_id": "t", "tool_name": "t", "state": "closed", "version": 1, "generation": 1, "changed_at": NOON}
    return Circuit.from_dict(given | fields)


def without(record, *names):
    """What a worker writes that doesn't know these fields."""
    return json.dumps({name: value for name, value in record.to_dict().items() if name not in names}).encode()


def test_a_record_of_an_older_worker_has_no_permits_left():
    half_open = circuit(state="half_open")
    assert Circuit.from_bytes(without(half_open, "permits_left", "stands_until")) == half_open
    assert half_open.permits_left == 0


def test_a_record_of_an_older_worker_admits_every_call():
    assert Circuit.from_bytes(without(circuit(), "admitted_share")).admitted_share == 1


def test_a_record_of_an_older_worker_knows_no_targets_and_no_limit_of_lateness():
    closed = circuit()
    assert Circuit.from_bytes(without(closed, "target", "overdue_after_ms")) == closed
    assert (closed.target, closed.overdue_after_ms) == (None, None)


def test_a_circuit_reads_back_as_written():
    written = circuit(
        state="half_open",
        previous_state="open",
        version=9,
        generation=4,
        cause=Cause(rule="probe_requested"),
        open_until=NOON,
        attempt=2,
        leases=(Lease(lease_id="l", emitter_id="e", expires_at=NOON),),
        counts=Counts(calls=20, failed=12),
        fallback=("other",),
    )
    assert Circuit.from_bytes(written.to_bytes()) == written
    assert Circuit.from_dict(written.to_dict()) == written


def test_unknown_fields_of_a_circuit_record_are_ignored():
    assert circuit(mood="sour") == circuit()


@table(
    ("wrong", "field", "said"),
    [
        ({"version": 0}, "version", ">= 1"),
        ({"version": 3.0}, "version", "got `float`"),
        ({"version": "3"}, "version", "got `str`"),
        ({"version": True}, "version", "got `bool`"),
        ({"version": None}, "version", "got `null`"),
        ({"generation": -1}, "generation", ">= 0"),
        ({"state": "ajar"}, "state", "'ajar'"),
        ({"admitted_share": 0}, "admitted_share", "> 0"),
        ({"changed_at": "2026-01-01T12:00:00"}, "changed_at", "timezone"),
        ({"last_error_class": "cosmic"}, "last_error_class", "'cosmic'"),
        ({"counts": {"calls": "3"}}, "counts.calls", "got `str`"),
        ({"cause": {"rule": "cusum", "sample": "many"}}, "cause.sample", "Expected `int | null`, got `str`"),
        ({"leases": [{"lease_id": "l", "emitter_id": "e"}]}, "leases[0]", "`expires_at`"),
    ],
)
def test_a_wrong_value_in_a_circuit_is_refused_with_its_place(wrong, field, said):
    with pytest.raises(InvalidExecutionError) as from_json:
        Circuit.from_bytes(json.dumps(circuit().to_dict() | wrong).encode())
    with pytest.raises(InvalidExecutionError) as from_values:
        circuit(**wrong)
    for refused in (from_json.value, from_values.value):
        assert refused.field == field
        assert said in refused.reason


@table("value", [None, b"", b"junk", b"[]", b"{}", b"[" * 100_000, b'{"circuit_id":"\xff"}'])
def test_what_is_no_circuit_at_all_is_refused(value):
    with pytest.raises(InvalidExecutionError):
        Circuit.from_bytes(value)
