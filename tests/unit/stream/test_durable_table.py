from __future__ import annotations

import pytest
from faust.types import TP

from switchgear.fleet import Row
from switchgear.fleet.rows import MARK, RowError
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import load_settings
from switchgear_stream.app import build_app


@pytest.fixture
async def table():
    _, found, _ = build_app(load_settings())
    return found


def _row(applied: int, name: str = "search") -> bytes:
    return Row(circuit_id=name, tool_name=name, applied=applied).encode()


def _owner(name: str) -> int:
    return owner_partition(name, load_settings().topic_partitions)


HERE = _owner("search")


def _restore(table, *values: bytes | None) -> None:
    for value in values:
        table.restore(HERE, b"search", value)


@pytest.mark.slow
async def test_a_written_row_is_in_memory_at_once(table):
    table.write(2, b"search", _row(1))
    assert table.rows[b"search"] == _row(1)


async def test_a_row_can_not_be_set_past_the_awaited_changelog(table):
    with pytest.raises(TypeError, match="not be durable"):
        table.on_key_set(b"search", b"")


async def test_rows_of_fausts_own_recovery_are_refused(table):
    with pytest.raises(TypeError, match="take-over"):
        table.apply_changelog_batch([])


async def test_the_last_row_of_a_circuit_is_restored(table):
    _restore(table, _row(1), _row(2))
    assert table.rows[b"search"] == _row(2)
    assert (table.read, table.stale_rows) == (2, 0)


async def test_a_stale_row_of_a_former_owner_does_not_replace_a_newer_one(table):
    _restore(table, _row(5), _row(3), _row(4))
    assert table.rows[b"search"] == _row(5)
    assert table.stale_rows == 2


async def test_a_stale_row_after_a_tombstone_is_ignored(table):
    _restore(table, _row(5), None, _row(4))
    assert b"search" not in table.rows


async def test_a_tombstone_deletes_a_row_and_a_later_row_restores_the_circuit(table):
    _restore(table, _row(1), None)
    assert b"search" not in table.rows
    _restore(table, _row(9))
    assert table.rows[b"search"] == _row(9)
    assert table.stale_rows == 0


async def test_a_partition_in_memory_is_not_read_again(table):
    assert not table.holds(HERE, 0)
    _restore(table, _row(1))
    table.restored({HERE: 5})
    assert table.holds(HERE, 5)
    table.wrote(HERE, 5, 2)
    table.wrote(HERE, 7, 1)
    assert table.holds(HERE, 8)
    assert table.rows[b"search"] == _row(1)


@pytest.mark.parametrize(
    ("base", "end"), [(6, 7), (-1, 6), (5, 7)], ids=["others between", "unknown offset", "others behind"]
)
async def test_a_partition_with_rows_of_another_worker_is_read_again(table, base, end):
    table.write(1, b"other", _row(1, "other"))
    table.write(0, b"search", _row(1))
    table.restored({0: 5, 1: 3})
    table.wrote(0, base, 1)
    assert not table.holds(0, end)
    assert table.holds(1, 3)
    assert set(table.rows) == {b"other"}


async def test_a_partition_that_was_revoked_and_assigned_again_is_read_again(table):
    table.restored({0: 5, 1: 3})
    await table.on_recovery_completed({TP("changelog", 1)}, set())
    assert table.holds(1, 3)
    assert not table.holds(0, 5)


async def test_rows_of_revoked_partitions_are_dropped_and_the_owner_gets_the_remaining_ones(table):
    remaining: list[set[int]] = []

    async def recovered(partitions: set[int]) -> None:
        remaining.append(partitions)

    table.on_recovered = recovered
    table.write(0, b"search", _row(1))
    table.write(1, b"other", _row(1, "other"))
    await table.on_recovery_completed({TP("changelog", 1)}, set())
    assert set(table.rows) == {b"other"}
    assert remaining == [{1}]


async def test_writing_a_row_without_a_value_removes_it(table):
    table.write(0, b"search", _row(1))
    table.write(0, b"search", None)
    assert b"search" not in table.rows


@pytest.mark.parametrize(
    "value", [b"", b"\x00", b"\x02" + _row(9)[1:], _row(9)[:-1], b"\xff" * 40, _row(9, "other"), b"x" * 100_000]
)
async def test_a_row_that_no_owner_wrote_is_refused_and_the_row_before_stays(table, value):
    _restore(table, _row(5))
    with pytest.raises(RowError):
        _restore(table, value)
    assert table.rows[b"search"] == _row(5)
    _restore(table, _row(6))
    assert table.rows[b"search"] == _row(6)


async def test_a_row_or_tombstone_in_another_partition_changes_nothing(table):
    _restore(table, _row(5))
    for value in (_row(9), None):
        with pytest.raises(RowError, match="another partition"):
            table.restore((HERE + 1) % 4, b"search", value)
    assert table.rows[b"search"] == _row(5)


async def test_a_tool_with_the_name_of_the_former_marks_keeps_its_row(table):
    name = "\x00mark"
    table.restore(_owner(name), name.encode(), _row(5, name))
    table.restore(_owner(name), MARK, None)
    table.restore(_owner(name), MARK, b"whatever")
    assert set(table.rows) == {name.encode()}


TOOL = "mcp:github:search"


async def test_the_table_has_the_pattern_of_the_settings():
    _, found, _ = build_app(load_settings(family_pattern=""))
    found.restore(owner_partition(TOOL, found.partition_count), TOOL.encode(), _row(3, TOOL))
    assert found.rows == {TOOL.encode(): _row(3, TOOL)}
