"""A row of the changelog that no owner wrote is refused."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker import snapshot
from switchgear.fleet.rows import Placement, PolicyOverrides, Row, RowError, check_row, is_circuit, is_overrides
from switchgear_schemas.partitioner import owner_partition, partition_of
from tests.support.fleet import World, failed_row
from tests.support.table import table

HERE = owner_partition("search", 4)


ROW = failed_row()


def refused(data: bytes, key: bytes = b"search", partition: int = HERE) -> str:
    with pytest.raises(RowError) as caught:
        check_row(key, data, partition, 4)
    return caught.value.message


def test_accepts_the_rows_that_an_owner_writes():
    check_row(b"search", ROW.encode(), HERE, 4)
    overrides = PolicyOverrides(partition=2, fences={1: 7}, applied=3, tables={"mcp:*": b"{}"})
    check_row(overrides.key, overrides.encode(), 2, 4)


def test_the_row_that_says_how_circuits_are_placed_is_checked_like_other_rows():
    placed = Placement(partition=3, pattern="mcp:*:*", partitions=4)
    check_row(placed.key, placed.encode(), 3, 4)
    assert Placement.decode(placed.encode()) == placed
    assert not is_circuit(placed.key)
    assert not is_overrides(placed.key)
    assert "another partition" in refused(placed.encode(), placed.key, 2)
    assert "another key" in refused(placed.encode(), placed.key[:-1] + b"2", 3)


def test_a_row_of_a_tool_belongs_into_the_partition_of_its_family():
    tool = "mcp:github:search"
    row, home, by_name = Row(circuit_id=tool, tool_name=tool), partition_of(tool, 12), owner_partition(tool, 12)
    assert home != by_name
    check_row(row.key, row.encode(), home, 12)
    check_row(row.key, row.encode(), by_name, 12, "")
    for partition, pattern in ((by_name, "mcp:*:*"), (home, "")):
        with pytest.raises(RowError, match="another partition"):
            check_row(row.key, row.encode(), partition, 12, pattern)


@table(
    ("fields", "wrong"),
    [
        ({"version": -1}, "`int` >= 0"),
        ({"total_calls": 2**63 - 1}, "`int` <="),
        ({"applied": 2**63}, "`int` <="),
        ({"clock": float("nan")}, "`float` >= 0.0"),
        ({"clock": 1e300}, "`float` < "),
        ({"command_until": -1.0}, "`float` >= 0.0"),
        ({"fences": {-1: 3}}, "`int` >= 0 - at `key`"),
        ({"command_fences": {1: 2**63 - 1}}, "`int` <="),
        ({"circuit_id": "other"}, "another name"),
        ({"scope": "user"}, "scope user has another name"),
        ({"tool_name": ""}, "length >= 1"),
        ({"breaker": b"\xff"}, "snapshot"),
        ({"policy": b"\xff"}, "DecodeError"),
        ({"policy": b"[1]"}, "not a JSON object"),
    ],
)
def test_a_row_that_decodes_and_that_no_circuit_can_have_is_refused(fields, wrong):
    found = refused(msgspec.structs.replace(ROW, **fields).encode())
    assert re.search(wrong, found), found


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"changed_at": 1e300}, "`float` <"),
        ({"open_until": float("inf")}, "`float` <"),
        ({"generation": 2**63 - 1}, "`int` <="),
        ({"circuit_id": "other"}, "another circuit's"),
    ],
)
def test_refuses_a_row_whose_breaker_is_in_a_state_that_no_circuit_can_have(fields, wrong):
    saved = msgspec.structs.replace(snapshot.decode(ROW.breaker), **fields)
    assert wrong in refused(msgspec.structs.replace(ROW, breaker=snapshot.encode(saved)).encode())


def test_a_window_whose_panes_are_too_many_to_number_is_refused():
    saved = snapshot.decode(ROW.breaker)
    evidence = msgspec.structs.replace(saved.evidence, stamp=2**63 - 1)
    breaker = snapshot.encode(msgspec.structs.replace(saved, evidence=evidence))
    assert "`int` <=" in refused(msgspec.structs.replace(ROW, breaker=breaker).encode())


def test_a_row_counts_in_the_partition_of_its_tool_and_under_its_own_key_alone():
    assert "another partition" in refused(ROW.encode(), partition=(HERE + 1) % 4)
    assert "another key" in refused(ROW.encode(), key=b"other")
    assert "another key" in refused(PolicyOverrides(partition=1).encode(), key=b"\xff2", partition=2)
    assert "another partition" in refused(PolicyOverrides(partition=1).encode(), key=b"\xff1", partition=2)
    assert "not a JSON object" in refused(PolicyOverrides(partition=1, tables={"*": b"5"}).encode(), b"\xff1", 1)
    assert "head" in refused(ROW.encode()[:1] + b"\xff" * 8 + ROW.encode()[9:])


@pytest.mark.slow
@given(key=st.binary(min_size=1, max_size=20), data=st.binary(max_size=200))
def test_refuses_arbitrary_bytes_with_a_row_error(key, data):
    with pytest.raises(RowError):
        check_row(key, data, 0, 4)


@pytest.mark.slow
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_row_with_one_byte_changed_passes_or_is_refused(at, byte):
    data = bytearray(ROW.encode())
    data[at % len(data)] = byte
    try:
        check_row(b"search", bytes(data), HERE, 4)
    except RowError:
        return
    World(rows={b"search": bytes(data)}).say()
