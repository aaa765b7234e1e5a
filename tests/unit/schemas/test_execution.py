"""ToolExecution: what is an event of a tool call, and what is not."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from switchgear_schemas import ToolExecution, ToolMetric
from switchgear_schemas.enums import MOST_MS, MOST_TOKENS
from tests.support.table import table


def test_only_the_tool_and_the_status_are_required():
    event = ToolExecution(tool_name="search", status="success")
    assert event.metric_id.version == 7
    assert event.recorded_at.tzinfo is UTC
    assert (datetime.now(UTC) - event.recorded_at).total_seconds() < 5


def test_two_events_never_share_an_id():
    assert len({ToolExecution(tool_name="t", status="success").metric_id for _ in range(1000)}) == 1000


@pytest.mark.parametrize("missing", ["tool_name", "status"])
def test_a_missing_required_field_is_named(missing):
    given_fields = {"tool_name": "search", "status": "success"}
    del given_fields[missing]
    with pytest.raises(ValidationError) as error:
        ToolExecution.from_dict(given_fields)
    assert error.value.errors()[0]["loc"] == (missing,)


@table(
    ("field", "value"),
    [
        ("tool_name", ""),
        ("tool_name", "x" * 257),
        ("tool_name", 7),
        ("status", "ok"),
        ("status", None),
        ("execution_time_ms", -1),
        ("execution_time_ms", float("nan")),
        ("execution_time_ms", "fast"),
        ("error_class", "weather"),
        ("input_tokens", -5),
        ("execution_time_ms", 1e300),
        ("input_tokens", 2**62),
        ("input_size", 2**63),
        ("cost_usd", 1e7),
        ("retry_after_s", -0.1),
        ("generation", -1),
        ("metadata", []),
        ("target", "x" * 257),
        ("credential", "x" * 65),
        ("overdue_ms", -1),
        ("evidence", "hearsay"),
        ("metric_id", "not-a-uuid"),
        ("recorded_at", "yesterday"),
        ("recorded_at", "1970-01-01T00:00:00Z"),
        ("recorded_at", "2200-01-01T00:00:00Z"),
    ],
)
def test_a_wrong_value_is_refused_and_its_field_named(field, value):
    with pytest.raises(ValidationError) as error:
        ToolExecution.from_dict({"tool_name": "search", "status": "success", field: value})
    assert error.value.errors()[0]["loc"][0] == field


@pytest.mark.parametrize("moment", ["2000-01-01T00:00:00Z", "2099-12-31T23:59:59.999Z"])
def test_the_years_2000_to_2099_are_accepted_to_their_ends(moment):
    assert ToolExecution.from_dict({"tool_name": "t", "status": "success", "recorded_at": moment})


def test_a_naive_time_is_utc_and_another_zone_is_converted():
    naive = ToolExecution(tool_name="t", status="success", recorded_at=datetime(2026, 1, 2, 3, 4))  # noqa: DTZ001
    zoned = ToolExecution.from_dict({"tool_name": "t", "status": "success", "recorded_at": "2026-01-02T05:04:00+02:00"})
    assert naive.recorded_at == zoned.recorded_at == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_unknown_fields_are_kept():
    event = ToolExecution.from_dict({"tool_name": "t", "status": "success", "region": "eu", "nested": {"a": [1]}})
    assert event.to_dict()["region"] == "eu"
    assert event.to_dict()["nested"] == {"a": [1]}


def test_uuids_are_accepted_as_session_and_request_ids():
    session = UUID("0e3287cb-c0ff-4d2a-8c3d-d8833014a7b0")
    event = ToolExecution(tool_name="t", status="success", session_id=session, request_id=session)  # type: ignore[arg-type]
    assert event.session_id == event.request_id == str(session)


@pytest.mark.slow
@given(
    tool_name=st.text(min_size=1, max_size=256),
    status=st.sampled_from(["success", "error", "timeout", "rejected"]),
    execution_time_ms=st.floats(min_value=0, max_value=MOST_MS),
    tokens=st.integers(min_value=0, max_value=MOST_TOKENS),
    recorded_at=st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2099, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_to_dict_and_from_dict_are_inverse(tool_name, status, execution_time_ms, tokens, recorded_at):
    event = ToolExecution(
        tool_name=tool_name,
        status=status,
        execution_time_ms=execution_time_ms,
        input_tokens=tokens,
        recorded_at=recorded_at,
    )
    assert ToolExecution.from_dict(event.to_dict()) == event


def test_tool_metric_is_another_name_of_tool_execution():
    assert ToolMetric is ToolExecution
