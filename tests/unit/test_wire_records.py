"""Records that released versions have written are still read, by each reader, and today's have lost no field."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec

from switchgear.follower.view import decode_view
from switchgear_alerts.facts import read_circuit
from switchgear_schemas import Circuit
from switchgear_schemas.wire import decode_execution
from switchgear_sinks.writer.rows import CircuitRows, ExecutionRows
from tests.support.records import HandMadeRecord
from tests.support.table import table
from tests.support.wire_records import GOLDEN, START, as_read, records

STORED = sorted(path for path in GOLDEN.glob("*/*.json") if not path.name.endswith(".read.json"))
EXECUTIONS = [path for path in STORED if path.name.startswith("execution_")]
CIRCUITS = [path for path in STORED if path.name.startswith("circuit_")]
VERSION = "0.1.0"
MADE_ANEW = {"execution_plain_success": {"metric_id"}}
"""What is another value each time."""


def named(path):
    return f"{path.parent.name}/{path.stem}"


def expected(path):
    return json.loads(path.with_suffix(".read.json").read_text())


def lacking(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Where ``found`` lacks or changes what is in ``wanted``. Further fields of an object don't matter."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            each
            for name, value in wanted.items()
            for each in (lacking(value, found[name], f"{where}.{name}") if name in found else [f"{where}.{name}"])
        ]
    return [] if wanted == found else [f"{where}: {wanted!r} became {found!r}"]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return value


def test_there_are_stored_records_of_this_version_of_each_kind():
    stored = {path.stem for path in STORED if path.parent.name == VERSION}
    assert stored == set(records())


@table("path", STORED, ids=named)
def test_the_model_reads_a_stored_record_as_it_did_when_it_was_stored(path):
    assert lacking(expected(path), as_read(path.stem, path.read_bytes())) == []


def test_today_s_records_have_every_field_of_the_stored_ones_with_the_same_values():
    for name, value in records().items():
        stored = json.loads((GOLDEN / VERSION / f"{name}.json").read_bytes())
        wanted = {field: each for field, each in stored.items() if field not in MADE_ANEW.get(name, ())}
        assert lacking(wanted, json.loads(value)) == [], name


@table("path", EXECUTIONS, ids=named)
def test_the_worker_reads_in_a_stored_execution_what_the_model_reads(path):
    event = decode_execution(path.read_bytes())
    given = json.loads(path.read_bytes())
    wanted = {name: value for name, value in expected(path).items() if name in event.__struct_fields__}
    for name, value in wanted.items():
        found = getattr(event, name)
        if name == "recorded_at":
            assert found == datetime.fromisoformat(value)
        elif name in given:
            assert msgspec.to_builtins(found) == value, name
        else:
            assert found == value or (name, found, value) == ("metadata", None, {}), name


@table("path", EXECUTIONS, ids=named)
def test_the_sink_makes_a_row_of_each_stored_execution_but_reports_of_overdue_calls(path):
    given = json.loads(path.read_bytes())
    rows = ExecutionRows().rows([HandMadeRecord(value=path.read_bytes(), timestamp=int(START * 1000) + 5_000)])
    assert rows.dead == []
    if given["status"] == "overdue":
        assert rows.skipped == {"overdue": 1}
        return
    (row,) = map(json.loads, rows.values)
    if "unknown_fields" in row:
        given = {name: value for name, value in given.items() if name not in json.loads(row["unknown_fields"])}
    assert lacking(given, row) == []


@table("path", CIRCUITS, ids=named)
def test_processes_and_the_console_read_in_a_stored_circuit_what_the_model_reads(path):
    wanted = Circuit.from_bytes(path.read_bytes())
    found = decode_view(path.read_bytes())
    assert found.changed_at == wanted.changed_at.timestamp()
    for name in ("open_until", "stands_until"):
        instant = getattr(wanted, name)
        assert getattr(found, name) == (None if instant is None else instant.timestamp()), name
    assert [each.expires_at for each in found.leases] == [each.expires_at.timestamp() for each in wanted.leases]
    for name in ("circuit_id", "tool_name", "family", "scope", "state", "version", "generation", "attempt"):
        assert getattr(found, name) == getattr(wanted, name), name
    for name in ("admitted_share", "permits_left", "last_error", "last_error_class", "mode", "fallback", "target"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert wanted.cause is not None
    for name in ("rule", "value", "threshold", "sample", "actor", "reason"):
        assert getattr(found.cause, name) == getattr(wanted.cause, name), name


@table("path", CIRCUITS, ids=named)
def test_the_sink_makes_a_row_of_each_stored_circuit_and_alerts_read_it(path):
    rows = CircuitRows().rows([HandMadeRecord(value=path.read_bytes())])
    assert rows.dead == []
    (row,) = map(json.loads, rows.values)
    columns = {name: json.loads(row[name]) for name in ("cause", "counts", "leases", "fallback") if name in row}
    assert lacking(without_nulls(expected(path)), row | columns) == []
    assert read_circuit(path.read_bytes()).facts.circuit_id == row["circuit_id"]
