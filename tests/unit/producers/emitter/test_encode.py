"""Encoded events are complete ToolExecutions without secrets."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import msgspec
import pytest

from switchgear.emitter.encode import encode_event, encode_fields
from switchgear.emitter.event import Event
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.wire import decode_execution
from tests.support.table import table

AT = 1_700_000_000.125
WHO = {"emitter_id": "planner@host-1", "service": "planner"}


def test_an_event_has_every_field_of_a_tool_execution_and_sends_none_that_a_gateway_writes():
    assert set(Event.__struct_fields__) == set(ToolExecution.model_fields)
    assert b"reporter" not in encode_event(Event("t", "success"), AT, **WHO)


def test_an_event_and_a_tool_execution_have_the_same_defaults():
    event = Event("t", "success")
    model = ToolExecution(tool_name="t", status="success")
    minted = {"metric_id", "recorded_at", "metadata"}
    for name in set(Event.__struct_fields__) - minted:
        assert getattr(event, name) == getattr(model, name), name


def test_an_event_gets_the_ids_and_times_that_it_lacks():
    value = encode_event(Event("search", "success", 12.5), AT, **WHO)
    found = ToolExecution.model_validate_json(value)
    assert found.tool_name == "search"
    assert found.execution_time_ms == 12.5
    assert found.recorded_at == datetime.fromtimestamp(AT, UTC)
    assert found.metric_id.version == 7
    assert (found.emitter_id, found.service) == ("planner@host-1", "planner")
    assert decode_execution(value).emitter_id == "planner@host-1"


def test_an_event_keeps_its_own_ids_and_times():
    own = "018bcfe5-687b-7000-8000-000000000000"
    when = datetime(2026, 5, 1, tzinfo=UTC)
    event = Event("t", "success", metric_id=own, recorded_at=when, emitter_id="me", service="mine")
    found = ToolExecution.model_validate_json(encode_event(event, AT, **WHO))
    assert (found.metric_id, found.recorded_at) == (UUID(own), when)
    assert (found.emitter_id, found.service) == ("me", "mine")


def test_every_field_of_an_event_is_encoded():
    event = Event(
        "t", "error", 1.0, 3, "lease", tenant="x", user_id="u", session_id="s", request_id="r", error_type="E",
        error_message="m", error_class="server", retry_after_s=2.0, parameters_hash="h", input_size=1, output_size=2,
        input_tokens=3, output_tokens=4, cache_creation_tokens=5, cost_usd=0.5, served_by="fallback", fallback_tool="f",
        probe_requested=True, traceparent="tp", metadata={"k": [1]},
        target="example.org", overdue_ms=6.0, credential="c", evidence="status_only",
    )  # fmt: skip
    found = ToolExecution.model_validate_json(encode_event(event, AT, **WHO))
    for name in Event.__struct_fields__:
        if name not in {"metric_id", "recorded_at"}:
            assert getattr(found, name) == getattr(event, name), name


def test_fields_with_their_default_are_not_encoded():
    assert set(json.loads(encode_event(Event("t", "success"), AT, **WHO))) == {
        "tool_name", "status", "metric_id", "recorded_at", "emitter_id", "service"
    }  # fmt: skip


def test_secrets_are_taken_out_of_the_error_message():
    value = encode_event(Event("t", "error", error_message="password=hunter2hunter2"), AT, **WHO)
    assert b"hunter2" not in value


def test_metadata_that_json_does_not_know_are_written_as_text():
    class Thing:
        def __str__(self):
            return "a thing"

    found = json.loads(encode_event(Event("t", "success", metadata={"x": Thing()}), AT, **WHO))
    assert found["metadata"] == {"x": "a thing"}


def test_a_failure_is_encoded_when_utf8_cannot_encode_its_message():
    event = Event("t", "error", error_message="cannot open 'caf\udce9.txt'", session_id="\ud800", metadata={"k": 1})
    found = ToolExecution.model_validate_json(encode_event(event, AT, **WHO))
    assert (found.error_message, found.session_id, found.metadata) == ("cannot open 'caf?.txt'", "?", {"k": 1})
    assert (found.status, found.emitter_id) == ("error", "planner@host-1")


def test_an_event_is_encoded_without_metadata_that_json_cannot_hold():
    class Mute:
        def __str__(self):
            raise OSError("no words")

    loop = {}
    loop["loop"] = loop
    for metadata in ({"x": Mute()}, {"x": "\udce9"}, loop):
        value = encode_event(Event("t", "error", metadata=metadata), AT, **WHO)
        found = decode_execution(value)
        assert (found.tool_name, found.status) == ("t", "error")
        assert json.loads(value)["metadata"]["switchgear.metadata"].startswith("left out: ")


@pytest.mark.parametrize("name", [3, None, "t\ud800"])
def test_a_tools_name_that_is_not_valid_text_is_an_error(name):
    with pytest.raises((AttributeError, ValueError)):
        encode_event(Event(name, "error"), AT, **WHO)


def test_a_users_fields_are_completed_and_unknown_ones_kept():
    tool, value = encode_fields({"tool_name": "t", "status": "success", "colour": "blue"}, AT, **WHO)
    found = json.loads(value)
    assert tool == "t"
    assert found["colour"] == "blue"
    assert datetime.fromisoformat(found["recorded_at"]) == datetime.fromtimestamp(AT, UTC)
    UUID(found["metric_id"])


def test_a_users_field_with_null_counts_as_missing():
    _, value = encode_fields({"tool_name": "t", "status": "success", "recorded_at": None, "metric_id": None}, AT, **WHO)
    ToolExecution.model_validate_json(value)


def test_a_users_time_of_another_zone_stays_the_same_instant():
    when = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    _, value = encode_fields({"tool_name": "t", "status": "success", "recorded_at": when}, AT, **WHO)
    assert ToolExecution.model_validate_json(value).recorded_at == when


@table(
    ("fields", "field"),
    [
        ({"status": "success"}, "tool_name"),
        ({"tool_name": "t"}, "status"),
        ({"tool_name": "t", "status": "fine"}, "status"),
        ({"tool_name": "t", "status": "success", "execution_time_ms": "long"}, "execution_time_ms"),
        ({"tool_name": "t", "status": "success", "recorded_at": datetime(1970, 1, 1, tzinfo=UTC)}, "recorded_at"),
    ],
)
def test_a_users_fields_that_are_not_an_execution_are_refused_by_name(fields, field):
    with pytest.raises(InvalidExecutionError) as caught:
        encode_fields(fields, AT, **WHO)
    assert caught.value.field == field


def test_secrets_are_taken_out_of_a_users_error_message():
    _, value = encode_fields({"tool_name": "t", "status": "error", "error_message": "token=abcdefgh123"}, AT, **WHO)
    assert b"abcdefgh123" not in value


def test_fields_that_cannot_be_encoded_are_an_error():
    loop: dict = {"tool_name": "t", "status": "success"}
    loop["metadata"] = loop
    with pytest.raises((RecursionError, msgspec.EncodeError, ValueError)):
        encode_fields(loop, AT, **WHO)
