"""Circuit records into rows."""

from __future__ import annotations

import json

import msgspec
import pytest

from switchgear.fleet import Message
from switchgear_schemas.circuit import Cause, Circuit, Counts, Lease
from switchgear_sinks.writer.rows import CircuitRows
from tests.support.records import records
from tests.support.table import table

MAKER = CircuitRows()
OPEN = Circuit(
    circuit_id="search",
    tool_name="search",
    state="open",
    previous_state="closed",
    version=4,
    generation=2,
    cause=Cause(rule="cusum", value=12.5, threshold=12.0, sample=8),
    changed_at="2026-11-21T10:00:00Z",  # type: ignore[arg-type]
    open_until="2026-11-21T10:01:00Z",  # type: ignore[arg-type]
    leases=(Lease(lease_id="l", emitter_id="e", expires_at="2026-11-21T10:01:30Z"),),  # type: ignore[arg-type]
    counts=Counts(calls=8, failed=8),
    fallback=("other",),
)


def test_a_record_becomes_a_row_with_its_coordinates_and_nested_parts_as_text() -> None:
    made = MAKER.rows(records(OPEN.to_bytes(), first=9))
    row = json.loads(made.values[0])
    assert (row["kafka_offset"], row["circuit_id"], row["state"], row["version"]) == (9, "search", "open", 4)
    assert json.loads(row["cause"])["rule"] == "cusum"
    assert json.loads(row["counts"])["failed"] == 8
    assert json.loads(row["leases"])[0]["lease_id"] == "l"
    assert json.loads(row["fallback"]) == ["other"]


def test_a_tombstone_is_skipped() -> None:
    made = MAKER.rows(records(None))
    assert (made.values, made.dead, made.skipped) == ([], [], {"tombstone": 1})


def test_a_record_whose_only_news_is_the_pace_is_skipped() -> None:
    paced = msgspec.structs.replace(OPEN, admitted_rate=10.0, news="pace")
    made = MAKER.rows(records(paced.to_bytes(), OPEN.to_bytes()))
    assert (len(made.values), made.dead, made.skipped) == (1, [], {"pace": 1})


@table(
    "value",
    [
        b"",
        b"junk",
        b"{}",
        b'{"circuit_id":"x"}',
        b"[]",
        b'{"circuit_id":"x","tool_name":"x","state":"ajar","version":1,"generation":0,"changed_at":"2026-11-21T10:00:00Z"}',
    ],
)
def test_a_message_that_is_not_a_circuit_is_a_dead_letter(value: bytes) -> None:
    made = MAKER.rows(records(value, topic="circuits"))
    assert made.values == []
    assert made.dead[0].topic == "circuits"
    assert made.dead[0].reason.startswith("not a circuit record: ")


def test_fields_of_a_newer_worker_do_no_harm() -> None:
    value = OPEN.to_dict() | {"colour": "red"}
    assert len(MAKER.rows(records(json.dumps(value).encode())).values) == 1


@pytest.mark.parametrize("name", ["circuit_id", "tool_name"])
def test_a_circuit_without_a_name_is_a_dead_letter_that_names_the_field(name):
    fields = {
        "circuit_id": "t", "tool_name": "t", "state": "open", "version": 1, "generation": 1, "changed_at": "2026-11-21T10:00:00Z",
    }  # fmt: skip
    value = json.dumps(fields | {name: ""}).encode()
    rows = CircuitRows().rows([Message("t.circuits", 0, 0, 1_795_262_400_000, b"t", value)])
    assert (rows.values, [letter.field for letter in rows.dead]) == ([], [name])


@table("share", ["0", "1.5", "-1", '"x"', "null", "NaN"])
def test_a_record_with_an_impossible_share_is_rejected(share: str) -> None:
    value = OPEN.to_bytes().decode().replace('"admitted_share":1.0', f'"admitted_share":{share}')
    assert share in value
    made = MAKER.rows(records(value.encode()))
    assert not made.values
    assert len(made.dead) == 1
