from __future__ import annotations

from types import SimpleNamespace

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


def _event(value: bytes | None, key: bytes = b"search", partition: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        key=key, value=value, message=SimpleNamespace(key=key, value=value, partition=partition, offset=0)
    )


async def test_a_written_row_is_in_memory_at_once(table):
    table.write(2, b"search", _row(1))
    assert table.rows[b"search"] == _row(1)


async def test_a_row_can_not_be_set_past_the_awaited_changelog(table):
    with pytest.raises(TypeError, match="not durable"):
        table.on_key_set(b"search", b"")


async def test_recovery_takes_the_last_row(table):
    table.apply_changelog_batch([_event(_row(1)), _event(_row(2))])
    assert table.rows[b"search"] == _row(2)
    assert table.stale_rows == 0


async def test_a_stale_row_of_a_former_owner_does_not_win_by_coming_last(table):
    table.apply_changelog_batch([_event(_row(5)), _event(_row(3))])
    table.apply_changelog_batch([_event(_row(4))])
    assert table.rows[b"search"] == _row(5)
    assert table.stale_rows == 2


async def test_reading_the_past_of_a_partition_that_stayed_changes_nothing_and_is_not_called_stale(table):
    table.write(0, b"search", _row(9))
    table.apply_changelog_batch([_event(_row(7)), _event(_row(8))])
    assert table.rows[b"search"] == _row(9)
    assert table.stale_rows == 0


async def test_a_tombstone_deletes(table):
    table.apply_changelog_batch([_event(_row(1))])
    table.apply_changelog_batch([_event(None)])
    assert b"search" not in table.rows


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


async def test_a_circuit_that_retired_and_came_back_is_recovered_as_it_is_now(table):
    table.write(0, b"search", _row(9))
    table.apply_changelog_batch([_event(_row(7)), _event(None), _event(_row(9))])
    assert table.rows[b"search"] == _row(9)
    assert table.stale_rows == 0
