"""From a recorded line to the record that is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from switchgear_api.replay.history import parse_line
from switchgear_cli.emit.recording import prepare, recorded_at
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution import ToolExecution
from tests.support.table import table

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
WHOLE = {
    "metric_id": "018bcfe5-687b-7000-8000-000000000000",
    "tool_name": "t",
    "status": "success",
    "recorded_at": "2022-08-22T03:52:19.214Z",
}


def ready(event: dict, **options):
    given = {"shift": None, "now": NOW, "service": None} | options
    return prepare(parse_line(1, json.dumps(event).encode()), **given)


def test_a_whole_line_goes_byte_for_byte():
    raw = b'{ "tool_name":"t",  "status":"success", "colour":1e3, "metric_id":"018bcfe5-687b-7000-8000-000000000000","recorded_at":"2022-08-22T03:52:19.214Z"}'
    found = prepare(parse_line(1, raw), shift=None, now=NOW, service=None)
    assert found.value == raw
    assert found.tool == "t"
    assert found.recorded_at == datetime(2022, 8, 22, 3, 52, 19, 214_000, tzinfo=UTC)


def test_a_line_without_identity_and_clock_is_given_both():
    found = ready({"tool_name": "t", "status": "success", "colour": "blue"})
    event = json.loads(found.value)
    assert UUID(event["metric_id"]).version == 7
    assert event["recorded_at"] == "2026-11-01T12:00:00Z"
    assert event["colour"] == "blue"
    assert found.recorded_at is None, "the line had none"


def test_a_null_field_of_a_line_counts_as_absent():
    found = ready({"tool_name": "t", "status": "success", "metric_id": None, "recorded_at": None, "request_id": None})
    ToolExecution.model_validate(json.loads(found.value))


def test_a_shift_moves_the_clock_and_nothing_else():
    found = ready(WHOLE | {"colour": "blue"}, shift=timedelta(days=1))
    assert json.loads(found.value) == WHOLE | {"colour": "blue", "recorded_at": "2022-08-23T03:52:19.214000Z"}


def test_a_naive_clock_is_taken_as_utc():
    line = parse_line(1, json.dumps(WHOLE | {"recorded_at": "2022-08-22T03:52:19"}).encode())
    assert recorded_at(line) == datetime(2022, 8, 22, 3, 52, 19, tzinfo=UTC)


def test_a_clock_of_another_zone_is_brought_to_utc():
    line = parse_line(1, json.dumps(WHOLE | {"recorded_at": "2022-08-22T05:52:19+02:00"}).encode())
    assert recorded_at(line) == datetime(2022, 8, 22, 3, 52, 19, tzinfo=UTC)


def test_a_service_given_on_the_command_line_wins():
    assert json.loads(ready(WHOLE | {"service": "old"}, service="new").value)["service"] == "new"
    assert json.loads(ready(WHOLE | {"service": "old"}).value)["service"] == "old"


def test_secrets_are_taken_out():
    found = ready(WHOLE | {"status": "error", "error_message": "401 for Bearer abcdefgh1234"})
    assert json.loads(found.value)["error_message"] == "401 for Bearer [redacted]"


@table(
    ("change", "field"),
    [
        ({"metric_id": "abc"}, "metric_id"),
        ({"metric_id": 7}, "metric_id"),
        ({"input_size": -1}, "input_size"),
        ({"output_size": 1.5}, "output_size"),
        ({"served_by": "nobody"}, "served_by"),
        ({"metadata": []}, "metadata"),
        ({"cost_usd": "free"}, "cost_usd"),
        ({"status": "weird"}, "status"),
    ],
)
def test_what_clickhouse_would_refuse_is_refused_here_by_name(change, field):
    with pytest.raises(InvalidExecutionError) as caught:
        ready(WHOLE | change)
    assert caught.value.field == field


def test_a_shift_out_of_the_calendar_is_refused():
    with pytest.raises(InvalidExecutionError, match="outside 2000 to 2100 after the shift"):
        ready(WHOLE, shift=timedelta(days=365 * 90))
