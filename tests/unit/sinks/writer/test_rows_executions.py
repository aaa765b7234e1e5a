"""Executions into rows: most go through byte for byte, the others are checked in full, what the worker rejects is not stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from switchgear_schemas import headers, wire
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution import LATEST, MAX_EVENT_BYTES, ToolExecution
from switchgear_sinks.writer.rows import ExecutionRows, StrictExecution, read_strictly
from tests.support.records import NOON_MS, HandMadeRecord, records
from tests.support.records import execution as _execution
from tests.support.shared import shared_folder
from tests.support.table import table

MAKER = ExecutionRows()
NOON = datetime.fromtimestamp(NOON_MS / 1000, UTC)


def execution(tool_name: str = "search", **fields: Any) -> bytes:
    """A call that ended when the broker had its event."""
    return _execution(tool_name, **({"recorded_at": NOON.isoformat()} | fields))


def row_of(value: bytes) -> dict[str, Any]:
    """The one row that a message makes."""
    made = MAKER.rows(records(value))
    assert made.dead == []
    return dict(json.loads(made.values[0]))


def dead_reason(value: bytes | None) -> tuple[str, str]:
    made = MAKER.rows(records(value))
    assert made.values == []
    letter = made.dead[0]
    assert letter.value == value, "the original bytes"
    return letter.field, letter.reason


def test_a_message_goes_through_byte_for_byte_behind_its_coordinates() -> None:
    value = execution()
    made = MAKER.rows([HandMadeRecord(partition=3, offset=42, timestamp=1_795_262_400_007, value=value)])
    assert made.values == [b'{"kafka_partition":3,"kafka_offset":42,"kafka_timestamp":1795262400.007,' + value[1:]]
    assert made.canonical == [False]


def test_a_timestamp_that_cannot_be_one_is_left_out() -> None:
    made = MAKER.rows([HandMadeRecord(timestamp=5, value=execution())])
    assert b"kafka_timestamp" not in made.values[0]


@pytest.mark.parametrize("stamp", [-1, 4_102_444_800_000, 2**63 - 1])
def test_a_timestamp_that_the_worker_cannot_count_from_is_a_dead_letter(stamp: int) -> None:
    made = MAKER.rows([HandMadeRecord(timestamp=stamp, value=execution())])
    assert made.values == []
    assert f"the record's timestamp {stamp} ms" in made.dead[0].reason


def test_the_strict_decoder_knows_every_field_of_the_contract_and_no_other() -> None:
    assert set(StrictExecution.__struct_fields__) == set(ToolExecution.model_fields)


def test_the_numbers_of_the_public_reports_that_no_call_has_are_dead_letters() -> None:
    cases = json.loads((shared_folder() / "acceptance" / "found_2026_11.json").read_text())["cases"]
    by_name = {case["name"]: json.dumps(case["input"]).encode() for case in cases if case["kind"] == "execution"}
    field, reason = dead_reason(by_name["a duration that no call has"])
    assert (field, "31536000000" in reason) == ("execution_time_ms", True)
    field, reason = dead_reason(by_name["tokens that overflow a sum"])
    assert (field, "1000000000" in reason) == ("input_tokens", True)


@table(
    ("fields", "status"),
    [
        ({"status": "error", "error_class": "cancelled"}, "cancelled"),
        ({"status": "timeout", "error_class": "cancelled"}, "cancelled"),
        ({"status": "cancelled", "error_class": "cancelled"}, "cancelled"),
        ({"status": "cancelled"}, "cancelled"),
        ({"status": "success", "error_class": "cancelled"}, "success"),
        ({"status": "rejected", "error_class": "cancelled"}, "rejected"),
        ({"status": "error", "error_class": "invalid_input"}, "error"),
    ],
)
def test_a_cancelled_call_is_stored_as_cancelled_whatever_status_its_emitter_knows(
    fields: dict[str, Any], status: str
) -> None:
    for value in (execution(**fields), execution(**fields, unknown_to_us=1)):
        row = row_of(value)
        assert (row["status"], row.get("error_class")) == (status, fields.get("error_class"))
        assert ToolExecution.model_validate_json(value).status == status
        assert ToolExecution.from_dict(json.loads(value)).status == status


@pytest.mark.parametrize("wrong", [{"status": ["error"]}, {"status": None}, {"error_class": ["cancelled"]}])
def test_a_status_or_class_of_a_wrong_type_is_a_dead_letter(wrong: dict[str, Any]) -> None:
    given = {"tool_name": "t", "status": "error", "error_class": "cancelled"} | wrong
    assert dead_reason(json.dumps(given).encode())[0] in wrong


def test_every_event_of_our_own_emitter_is_accepted() -> None:
    assert read_strictly(b'{"tool_name":"x","status":"cancelled","error_class":"cancelled"}', LATEST)
    full = ToolExecution(
        tool_name="search",
        status="error",
        session_id="s",
        request_id="r",
        error_type="E",
        error_message="größer",
        error_class="server",
        retry_after_s=1.5,
        parameters_hash="h",
        fallback_tool="other",
        generation=3,
        lease_id="l",
        traceparent="00-1-1-01",
        metadata={"a": {"b": [1, None]}},
        target="example.org",
        overdue_ms=6.0,
        credential="c",
        evidence="status_only",
    )
    assert read_strictly(full.model_dump_json().encode(), LATEST)
    assert read_strictly(full.model_dump_json(exclude_none=True).encode(), LATEST)
    assert read_strictly(b'{"tool_name":"x","status":"error"}', LATEST)


@table(
    "value",
    [
        None,
        b"",
        b"not json",
        b"[]",
        b'"text"',
        b"null",
        b"{",
        b'{"tool_name":"x","status":"error"} {"tool_name":"y","status":"error"}',
        b'{"status":"error"}',
        b'{"tool_name":"x"}',
        b'{"tool_name":"","status":"error"}',
        b'{"tool_name":"x","status":"broken"}',
        b'{"tool_name":7,"status":"error"}',
        b'{"tool_name":"x","status":"error","execution_time_ms":"fast"}',
        b'{"tool_name":"x","status":"error","execution_time_ms":-1}',
        b'{"tool_name":"x","status":"error","recorded_at":"1970-01-01T00:00:00Z"}',
        b'{"tool_name":"x","status":"error","recorded_at":"2200-01-01T00:00:00Z"}',
        b'{"tool_name":"x","status":"error","recorded_at":"yesterday"}',
        b'{"tool_name":"\xff","status":"error"}',
        b'{"tool_name":"x","status":"error","error_message":"' + b"a" * MAX_EVENT_BYTES + b'"}',
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_the_worker_rejects_is_a_dead_letter_for_the_same_reason(value: bytes | None) -> None:
    with pytest.raises(InvalidExecutionError) as rejected:
        wire.decode_execution(value)
    assert dead_reason(value) == (rejected.value.field, rejected.value.reason)


@table(
    ("fields", "field"),
    [
        ({"metric_id": "not-a-uuid"}, "metric_id"),
        ({"input_size": -1}, "input_size"),
        ({"input_size": 2**64}, "input_size"),
        ({"cost_usd": "much"}, "cost_usd"),
        ({"served_by": "magic"}, "served_by"),
        ({"metadata": "text"}, "metadata"),
        ({"request_id": 5}, "request_id"),
        ({"tenant": "t" * 257}, "tenant"),
    ],
)
def test_what_breaks_the_contract_is_a_dead_letter_that_names_the_field(fields: dict[str, Any], field: str) -> None:
    named, reason = dead_reason(execution(**fields))
    assert named == field
    assert reason


def test_a_null_field_counts_as_absent() -> None:
    value = b'{"tool_name":"x","status":"error","user_id":null,"session_id":null,"metric_id":null,"input_size":null,"recorded_at":null}'
    assert read_strictly(value, LATEST), "ClickHouse takes the default for a null"


def test_a_whole_number_may_stand_where_a_duration_is_expected() -> None:
    assert read_strictly(b'{"tool_name":"x","status":"error","execution_time_ms":12,"cost_usd":0}', LATEST)


def test_a_field_that_we_do_not_know_is_kept() -> None:
    row = row_of(execution(weather={"wind": 3}, kafka_offset=7, retention_days=1))
    assert row["kafka_offset"] == 0, "our own coordinate"
    assert "retention_days" not in row
    assert json.loads(row["unknown_fields"]) == {"weather": {"wind": 3}, "kafka_offset": 7, "retention_days": 1}


def test_a_rewritten_record_leaves_its_id_to_clickhouse() -> None:
    row = row_of(b'{"tool_name":"x","status":"error","colour":"red"}')
    assert set(row) == {
        "kafka_partition", "kafka_offset", "kafka_timestamp", "tool_name", "status", "unknown_fields"
    }  # fmt: skip


def test_metadata_stays_json_text_in_a_rewritten_record() -> None:
    row = row_of(execution(metadata={"a": [1, {"b": None}]}, colour="red"))
    assert json.loads(row["metadata"]) == {"a": [1, {"b": None}]}


def test_a_naive_time_is_taken_as_utc() -> None:
    row = row_of(execution(recorded_at="2026-05-01T10:00:00"))
    assert (row["recorded_at"], row["recorded_as"]) == ("2026-05-01T10:00:00Z", "2026-05-01T10:00:00")


def test_a_naive_time_that_is_right_to_a_minute_is_no_error() -> None:
    """A machine that runs in UTC, and sends no zone."""
    for off in (-60, -1, 0, 59.999):
        sent = (NOON + timedelta(seconds=off)).replace(tzinfo=None).isoformat()
        made = MAKER.rows(records(execution(recorded_at=sent)))
        row = json.loads(made.values[0])
        assert (row["recorded_at"].removesuffix("Z"), row.get("recorded_as")) == (sent, None)
        assert made.wrong_clocks == {}


@pytest.mark.parametrize(
    "sent", ["2099-01-01T00:00:00Z", "2026-11-21T12:01:00.000001Z", "2026-11-21T14:00:00+01:00", "2026-11-21T12:01:00z"]
)
def test_a_time_ahead_of_the_brokers_is_stored_as_the_brokers_with_what_was_sent(sent: str) -> None:
    made = MAKER.rows(records(execution(recorded_at=sent, emitter_id="host:7:a")))
    row = json.loads(made.values[0])
    assert (row["recorded_at"], row["recorded_as"]) == ("2026-11-21T12:00:00Z", sent)
    assert made.wrong_clocks == {("host:7:a", "ahead"): 1}
    assert "unknown_fields" not in row


def test_a_minute_ahead_is_no_error() -> None:
    value = execution(recorded_at=(NOON + timedelta(seconds=59.999)).isoformat())
    made = MAKER.rows(records(value))
    assert (made.canonical, made.wrong_clocks) == ([False], {}), "byte for byte"


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("2026-11-21T07:00:00", "2026-11-21T07:00:00Z"), ("2026-11-21T13:00:00.5", "2026-11-21T12:00:00Z")],
)
def test_a_local_time_without_a_zone_is_kept_as_it_was_sent(sent: str, stored: str) -> None:
    made = MAKER.rows(
        records(execution(recorded_at=sent), execution(recorded_at=sent), execution(recorded_at="2026-11-21T05:00:00Z"))
    )
    rows = [json.loads(value) for value in made.values]
    assert [(row["recorded_at"], row.get("recorded_as")) for row in rows[:2]] == [(stored, sent)] * 2
    assert "recorded_as" not in rows[2], "a time with a zone that is late was delivered late"
    assert made.wrong_clocks == {("", "no_zone"): 2}


@pytest.mark.parametrize("year", [2001, 2026, 2098])
def test_the_same_record_makes_the_same_row_whatever_the_sinks_clock_is(year: int) -> None:
    arrived = datetime(year, 6, 1, 12, tzinfo=UTC)
    stamp = int(arrived.timestamp() * 1000)
    late, ahead = ((arrived + timedelta(seconds=off)).isoformat() for off in (59, 61))
    batch = records(execution(recorded_at=late), execution(recorded_at=ahead), timestamp=stamp)
    rows = [json.loads(value) for value in MAKER.rows(batch).values]
    assert [row["recorded_at"] for row in rows] == [late, f"{year}-06-01T12:00:00Z"]
    assert [row.get("recorded_as") for row in rows] == [None, ahead]
    assert MAKER.canonical(batch[1]) == MAKER.rows(batch).values[1]


def test_a_stamp_that_is_not_a_brokers_bounds_no_time() -> None:
    made = MAKER.rows([HandMadeRecord(timestamp=5, value=execution()), HandMadeRecord(value=execution())])
    assert made.canonical == [False, False]


@table(
    "sent",
    [
        1_795_262_400,
        "2099-01-01T00:00:00+99:99",
        "2099",
        "9" * 1_000_000,
        "2100-01-01T00:00:00Z",
        "1999-12-31T23:59:59Z",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_time_stays_a_dead_letter(sent: object) -> None:
    assert dead_reason(execution(recorded_at=sent))[0] in {"recorded_at", ""}


def test_a_field_of_that_name_in_an_event_does_not_forge_the_mark() -> None:
    row = row_of(execution(recorded_as="2001-01-01T00:00:00Z"))
    assert "recorded_as" not in row
    assert json.loads(row["unknown_fields"]) == {"recorded_as": "2001-01-01T00:00:00Z"}


def test_white_space_around_a_message_does_no_harm() -> None:
    assert row_of(b' \n\t{"tool_name":"x","status":"error"}\n')["tool_name"] == "x"


def test_bytes_that_are_not_utf_8_in_unknown_fields_are_replaced() -> None:
    row = row_of(b'{"tool_name":"x","status":"error","colour":"\xff"}')
    assert json.loads(row["unknown_fields"]) == {"colour": "�"}


def test_a_copy_that_the_worker_sent_on_is_skipped() -> None:
    made = MAKER.rows([HandMadeRecord(value=execution(), headers=[(headers.REKEYED, b"1:2")])])
    assert (made.values, made.dead, made.skipped) == ([], [], {"rekeyed": 1})


@table(
    "value",
    [
        b'{"tool_name":"x","status":"overdue","execution_time_ms":6000,"overdue_ms":6000}',
        b'{"tool_name":"x","status":"overdue","colour":"red"}',
        b'{"tool_name":"x","status":"over\\u0064ue"}',
        b'{"tool_name":"x","status":"overdue","error_class":"cancelled"}',
        b'{"tool_name":"x","status":"success","status":"overdue"}',
        b' {"tool_name":"x","status":"overdue"}',
    ],
)
def test_a_report_of_an_overdue_call_is_skipped_and_no_dead_letter(value: bytes) -> None:
    record = HandMadeRecord(value=value, headers=[(headers.RESENT, b"1")])
    made = MAKER.rows([record])
    assert (made.values, made.records, made.resent, made.dead) == ([], [], [], [])
    assert made.skipped == {"overdue": 1}


def test_an_invalid_report_of_an_overdue_call_is_a_dead_letter() -> None:
    assert dead_reason(b'{"tool_name":"x","status":"overdue","overdue_ms":-1}')[0] == "overdue_ms"


def test_the_end_of_an_overdue_call_is_a_row_with_its_lateness() -> None:
    row = row_of(
        b'{"tool_name":"x","status":"timeout","execution_time_ms":9000,"overdue_ms":6000,"target":"example.org"}'
    )
    assert (row["status"], row["overdue_ms"], row["target"]) == ("timeout", 6000, "example.org")


def test_a_resent_event_is_marked_for_the_look_up() -> None:
    record = HandMadeRecord(value=execution(), headers=[(headers.RESENT, b"1")])
    made = MAKER.rows([record])
    assert made.resent == [record]
    assert len(made.values) == 1


def test_a_rejected_resent_event_is_not_looked_up() -> None:
    made = MAKER.rows([HandMadeRecord(value=b"junk", headers=[(headers.RESENT, b"1")])])
    assert (made.resent, len(made.dead)) == ([], 1)


def test_one_bad_message_leaves_its_neighbours_alone() -> None:
    made = MAKER.rows(records(execution("a"), b"junk", execution("b")))
    assert [json.loads(value)["tool_name"] for value in made.values] == ["a", "b"]
    assert [record.offset for record in made.records] == [0, 2]
    assert [letter.offset for letter in made.dead] == [1]


def test_the_same_records_make_the_same_rows() -> None:
    batch = records(execution(), execution(colour="red"), b"junk", execution(metadata={"a": 1}, colour=2))
    assert MAKER.rows(batch).values == MAKER.rows(batch).values
