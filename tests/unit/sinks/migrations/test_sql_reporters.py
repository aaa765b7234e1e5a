"""Migration 0014 on a database that has rows: the credential with which an event came through a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import load_migrations, migrate
from switchgear_sinks.store import Store, open_store
from tests.support.engine import call, store_calls

BEFORE = [each for each in load_migrations() if each.version < 14]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        await migrate(opened, migrations=BEFORE)
        yield opened


@pytest.mark.deep
async def test_migration_14_keeps_calls_and_stores_who_reported_a_call(store: Store) -> None:
    await store_calls(store, [call(status="error", error_class="transport", execution_time_ms=6_000)])
    await migrate(store)
    await store_calls(store, [call(status="timeout", execution_time_ms=7_000, reporter="token abc")])
    for table in ("tool_metrics", "tool_errors", "tool_slow_calls"):
        found = (await store.query(f"SELECT reporter FROM {table} ORDER BY reporter")).result_rows
        assert [tuple(each) for each in found] == [("",), ("token abc",)], table
