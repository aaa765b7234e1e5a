from __future__ import annotations

import pytest
from faust.types import TP

from switchgear.fleet import Row
from switchgear_schemas.settings import load_settings
from switchgear_stream.app import build_app


@pytest.fixture
async def table():
    _, found, _ = build_app(load_settings())
    return found


def _row(applied: int, name: str = "search") -> bytes:
    return Row(circuit_id=name, tool_name=name, applied=applied).encode()


def _restore(table, *values: bytes | None, key: bytes = b"search", partition: int = 0) -> None:
    for value in values:
        table.restore(partition, key, value)


async def test_a_written_row_is_in_memory_at_once(table):
    table.write(2, b"search", _row(1))
    assert table.rows[b"search"] == _row(1)


async def test_a_row_can_not_be_set_past_the_awaited_changelog(table):
    with pytest.raises(TypeError, match="not durable"):
        table.on_key_set(b"search", b"")


async def test_faust_may_recover_nothing_by_itself(table):
    with pytest.raises(TypeError, match="take-over"):
        table.apply_changelog_batch([])


async def test_the_last_row_is_restored(table):
    _restore(table, _row(1), _row(2))
    assert table.rows[b"search"] == _row(2)
    assert (table.read, table.stale_rows) == (2, 0)


async def test_a_stale_row_of_a_former_owner_does_not_win_by_coming_last(table):
    _restore(table, _row(5), _row(3), _row(4))
    assert table.rows[b"search"] == _row(5)
    assert table.stale_rows == 2


async def test_nor_does_it_win_behind_a_tombstone(table):
    _restore(table, _row(5), None, _row(4))
    assert b"search" not in table.rows


async def test_a_tombstone_deletes_and_a_circuit_that_came_back_is_restored_as_it_is_now(table):
    _restore(table, _row(1), None)
    assert b"search" not in table.rows
    _restore(table, _row(9))
    assert table.rows[b"search"] == _row(9)
    assert table.stale_rows == 0


async def test_what_memory_holds_is_not_read_again(table):
    assert not table.holds(0, 0)
    _restore(table, _row(1))
    table.restored({0: 5})
    assert table.holds(0, 5)
    table.wrote(0, 5, 2)
    table.wrote(0, 7, 1)
    assert table.holds(0, 8)
    assert table.rows[b"search"] == _row(1)


@pytest.mark.parametrize(
    ("base", "end"), [(6, 7), (-1, 6), (5, 7)], ids=["others between", "not told", "others behind"]
)
async def test_rows_of_others_in_a_partition_have_it_read_anew(table, base, end):
    table.write(1, b"other", _row(1, "other"))
    table.write(0, b"search", _row(1))
    table.restored({0: 5, 1: 3})
    table.wrote(0, base, 1)
    assert not table.holds(0, end)
    assert table.holds(1, 3)
    assert set(table.rows) == {b"other"}


async def test_a_partition_that_left_and_came_back_is_read_anew(table):
    table.restored({0: 5, 1: 3})
    await table.on_recovery_completed({TP("changelog", 1)}, set())
    assert table.holds(1, 3)
    assert not table.holds(0, 5)


async def test_rows_of_partitions_that_left_are_dropped_and_the_owner_is_told_what_stays(table):
    told: list[set[int]] = []

    async def recovered(partitions: set[int]) -> None:
        told.append(partitions)

    table.on_recovered = recovered
    table.write(0, b"search", _row(1))
    table.write(1, b"other", _row(1, "other"))
    await table.on_recovery_completed({TP("changelog", 1)}, set())
    assert set(table.rows) == {b"other"}
    assert told == [{1}]


async def test_a_row_that_is_written_without_a_value_is_gone(table):
    table.write(0, b"search", _row(1))
    table.write(0, b"search", None)
    assert b"search" not in table.rows
