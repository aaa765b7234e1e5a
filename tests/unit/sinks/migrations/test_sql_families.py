"""Migration 0011 on a database that has rows: circuits and calls of families get columns of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import load_migrations, migrate
from switchgear_sinks.store import Store, open_store
from tests.support.engine import call, store_calls

BEFORE = [each for each in load_migrations() if each.version < 11]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        await migrate(opened, migrations=BEFORE)
        yield opened


async def _stored(store: Store, table: str) -> list[tuple[object, ...]]:
    found = await store.query(f"SELECT family_generation, family_lease_id FROM {table} ORDER BY family_generation")
    return [tuple(each) for each in found.result_rows]


@pytest.mark.deep
async def test_migration_11_keeps_calls_and_stores_the_familys_generation_and_lease(store: Store) -> None:
    await store_calls(store, [call(status="error", error_class="transport", execution_time_ms=6_000)])
    await migrate(store)
    probe = {"family_generation": 3, "family_lease_id": "3.1", "status": "timeout", "execution_time_ms": 7_000}
    await store_calls(store, [call(**probe)])
    for table in ("tool_metrics", "tool_errors", "tool_slow_calls"):
        assert await _stored(store, table) == [(3, "3.1"), (None, "")], table


@pytest.mark.deep
async def test_circuits_from_before_have_no_family(store: Store) -> None:
    columns = "circuit_id, tool_name, state, version, generation, changed_at, kafka_partition, kafka_offset"
    old = "'search', 'search', 'open', 1, 1, now(), 0, 0"
    await store.command(f"INSERT INTO circuit_transitions ({columns}) VALUES ({old})")
    await migrate(store)
    new = "'mcp:github|family', 'mcp:github', 'open', 1, 1, now(), 0, 1, 'mcp:github', 'family'"
    await store.command(f"INSERT INTO circuit_transitions ({columns}, family, scope) VALUES ({new})")
    found = await store.query("SELECT circuit_id, family, scope FROM circuit_transitions ORDER BY kafka_offset")
    assert [tuple(each) for each in found.result_rows] == [
        ("search", "", "tool"),
        ("mcp:github|family", "mcp:github", "family"),
    ]
