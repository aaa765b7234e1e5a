"""The hot path's struct and the pydantic model say the same of every message."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from switchgear_schemas import InvalidExecutionError, ToolExecution
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_schemas.wire import Execution, decode_execution, decode_valid_executions, encode
from tests.support.field_values import values_of
from tests.support.table import table

FIELDS = msgspec.structs.fields(Execution)


def test_struct_and_model_name_the_same_fields():
    assert {field.name for field in FIELDS} == set(ToolExecution.model_fields)


@table("field", FIELDS, ids=lambda field: field.name)
def test_a_field_is_required_in_both_or_in_neither(field):
    assert field.required == ToolExecution.model_fields[field.name].is_required()


VALUES = values_of(Execution)
NUMBERS = {name for name, (valid, *_) in VALUES.items() if type(valid) in {int, float}}


@table(("name", "value"), [(name, value) for name, values in VALUES.items() for value in [*values, None]])
def test_struct_and_model_accept_and_refuse_the_same_values(name, value):
    message = {"tool_name": "search", "status": "success", name: value}
    if name in NUMBERS and type(value) in {str, bool}:
        # The model, made for people, converts what the struct, made for the wire, refuses.
        ToolExecution.from_dict(message)
        with pytest.raises(InvalidExecutionError):
            decode_execution(json.dumps(message).encode())
        return
    try:
        wanted = ToolExecution.model_validate_json(json.dumps(message))
    except ValidationError as error:
        assert error.errors()[0]["loc"][0] == name
        with pytest.raises(InvalidExecutionError) as refused:
            decode_execution(json.dumps(message).encode())
        assert refused.value.field == name
    else:
        found = getattr(decode_execution(json.dumps(message).encode()), name)
        assert found == (None if value is None else getattr(wanted, name))


@table(
    ("message", "field", "reason"),
    [
        (None, "", "empty"),
        (b"", "", "empty"),
        (b"hello", "", "not JSON"),
        (b"\xff\xfe", "", "not JSON"),
        (b"[]", "", "Expected `object`"),
        (b"null", "", "Expected `object`"),
        (b'{"tool_name":"x"', "", "not JSON"),
        (b"[" * 100_000, "", ""),
        (b"{}", "tool_name", "missing"),
        (b'{"tool_name":"x"}', "status", "missing"),
        (b'{"tool_name":null,"status":"error"}', "tool_name", "Expected `str`"),
        (
            b'{"tool_name":"x","status":"error","recorded_at":"1970-01-01T00:00:00Z"}',
            "recorded_at",
            "between 2000 and 2100",
        ),
        (b'{"tool_name":"x","status":"error","pad":"' + b"x" * MAX_EVENT_BYTES + b'"}', "", "more than"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_invalid_execution_is_refused_with_field_and_reason(message, field, reason):
    with pytest.raises(InvalidExecutionError) as error:
        decode_execution(message)
    assert error.value.field == field
    assert reason in error.value.reason


@table(
    ("field", "least", "most"),
    [
        ("execution_time_ms", 31_536_000_001, "31536000000"),
        ("input_tokens", 10**9 + 1, "1000000000"),
        ("output_tokens", 2**62, "1000000000"),
        ("cache_creation_tokens", 2**62, "1000000000"),
        ("input_size", 2**40 + 1, "1099511627776"),
        ("output_size", 2**53, "1099511627776"),
        ("cost_usd", 1e9, "1000000"),
    ],
)
def test_a_number_that_no_call_has_is_refused_with_its_field_and_the_largest_that_one_may_have(field, least, most):
    with pytest.raises(InvalidExecutionError, match=most) as error:
        decode_execution(json.dumps({"tool_name": "x", "status": "success", field: least}).encode())
    assert error.value.field == field


def test_null_means_absent_and_unknown_fields_are_skipped():
    event = decode_execution(b'{"tool_name":"x","status":"error","session_id":null,"error_class":null,"hue":7}')
    assert event.session_id is None
    assert event.error_class is None


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_no_other_error(value):
    try:
        decode_execution(value)
    except InvalidExecutionError as error:
        assert error.reason


WHOLE = b'{"tool_name":"x","status":"success"}'
PIECES = st.sampled_from(
    [
        WHOLE,
        b"{",
        b"}",
        b"\n",
        b" ",
        b"\r",
        b",",
        b'"metadata":',
        b'"tool_name":"x"',
        b'"status":"error"',
        b'"n":"}',
        b'"',
        b"5",
    ]
)


def one_by_one(values):
    try:
        return [decode_execution(value) for value in values]
    except InvalidExecutionError:
        return None


@pytest.mark.slow
@given(st.lists(st.one_of(st.just(WHOLE), st.lists(PIECES, max_size=8).map(b"".join)), max_size=4))
def test_messages_decoded_together_are_what_each_is_alone(values):
    assert decode_valid_executions(values) in (None, one_by_one(values))


@table(
    "values",
    [
        [WHOLE + WHOLE, WHOLE[:-1] + b',"metadata":{}', b"}"],
        [WHOLE + WHOLE, WHOLE[:-1], b"}"],
        [WHOLE[:-1] + b',"metadata":{}\n}', WHOLE],
        [WHOLE + b" ", WHOLE],
        [WHOLE, b'{"tool_name":"x","status":"success","recorded_at":"1999-01-01T00:00:00Z"}'],
        [WHOLE, b'{"tool_name":"x","status":"success","pad":"' + b"x" * MAX_EVENT_BYTES + b'"}'],
        [WHOLE, b'{"tool_name":"x"}'],
        [WHOLE, b""],
        [],
    ],
    ids=lambda values: repr(values)[:40],
)
def test_messages_are_decoded_together_only_if_each_is_one_valid_object(values):
    assert decode_valid_executions([WHOLE, WHOLE]) == [decode_execution(WHOLE)] * 2
    assert decode_valid_executions(values) is None


def test_an_encoded_event_decodes_to_itself():
    at = datetime(2026, 5, 4, 3, 2, 1, 500_000, tzinfo=UTC)
    event = decode_execution(
        encode({"tool_name": "x", "status": "timeout", "recorded_at": at, "execution_time_ms": 1.5})
    )
    assert (event.tool_name, event.status, event.recorded_at, event.execution_time_ms) == ("x", "timeout", at, 1.5)
