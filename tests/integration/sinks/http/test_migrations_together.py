"""Several processes bring one ClickHouse server to this version at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import Layout, MigrationError, migrate, runner
from switchgear_sinks.store import Store, open_store
from tests.support.clickhouse_http import ClickHouseServer, clickhouse_server
from tests.support.limits import HAPPEN_S
from tests.support.sinking import rollups_differ

AT_ONCE = 4
DATABASES = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    with clickhouse_server(tmp_path_factory.mktemp("server"), any_free_port()) as running:
        yield running


@asynccontextmanager
async def opened(server: ClickHouseServer, database: str, count: int) -> AsyncIterator[list[Store]]:
    url = f"{server.url}/{database}"
    async with AsyncExitStack() as stack:
        stores = []
        for _ in range(count):
            store = await open_store(Settings(clickhouse_url=url, clickhouse_connect_timeout_s=5))
            stack.push_async_callback(store.close)
            stores.append(store)
        yield stores


@pytest.mark.deep
@pytest.mark.parametrize("database", [f"together_{number}" for number in range(DATABASES)])
async def test_the_rollups_have_every_row_after_several_processes_migrated_at_once(
    server: ClickHouseServer, database: str
) -> None:
    async with opened(server, database, AT_ONCE) as stores:
        applied = await asyncio.gather(*map(migrate, stores))
        assert sorted(map(bool, applied)) == [False] * (AT_ONCE - 1) + [True]
        for status in ("success", "error", "timeout", "cancelled"):
            row = f'{{"tool_name": "t", "status": "{status}", "execution_time_ms": 5.0}}'
            await stores[0].raw_insert("tool_metrics", row.encode())
        assert await rollups_differ(stores[0]) == {}
        found = await stores[0].query(f"SELECT count() FROM system.tables WHERE name = '{runner.LOCK}'")
        assert found.result_rows == [(0,)]


async def test_migration_waits_for_the_lock_and_then_names_it(server: ClickHouseServer) -> None:
    async with opened(server, "held", 2) as (first, second), runner.one_at_a_time(first, Layout()):
        with pytest.raises(
            MigrationError, match=r"migrating this database for 0\.5 s.*drop the table schema_migrations_lock"
        ):
            async with runner.one_at_a_time(second, Layout(), limit_s=0.5):
                pass


@pytest.mark.deep
async def test_migration_drops_an_old_lock_of_a_dead_process(
    server: ClickHouseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STALE_S", 1.0)
    async with opened(server, "left", 1) as (store,):
        await store.command(Layout().fill(runner._CREATE_LOCK))
        async with asyncio.timeout(HAPPEN_S), runner.one_at_a_time(store, Layout()):
            pass
