"""A migration that changes the query of a view, on a database with and without rows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from switchgear_schemas.settings import Settings, load_settings
from switchgear_sinks.migrations import Layout, Migration, load_migrations, migrate
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from tests.support.engine import call, store_calls
from tests.support.sinking import rollups_differ

pytestmark = pytest.mark.deep

BASELINE = load_migrations()
VIEWS = ("tool_counts_1m_mv", "tool_errors_mv")


def _change(view: str) -> str:
    """Return a statement that sets a view's query again."""
    statements = [statement for each in BASELINE for statement in each.statements(Layout())]
    setting = (f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view} ", f"ALTER TABLE {view} ")
    newest = [each for each in statements if each.startswith(setting)][-1]
    query = re.split(" AS\n|MODIFY QUERY\n", newest, maxsplit=1)[1]
    return f"ALTER TABLE {view} {{on_cluster}} MODIFY QUERY\n{query};\n"


CHANGE = Migration(BASELINE[-1].version + 1, "views", "".join(map(_change, VIEWS)))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(clickhouse_url=f"chdb:{tmp_path}")


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with await open_store(settings) as opened:
        await migrate(opened, migrations=BASELINE)
        yield opened


async def test_rows_that_arrive_while_a_migration_changes_a_view_are_counted_once(store: Store) -> None:
    kinds = [call(status=status) for status in ("success", "error", "timeout", "rejected")]
    for _ in range(10):
        await store_calls(store, kinds * 20)
    stop = asyncio.Event()

    async def sink_of_before() -> int:
        batches = 0
        while not stop.is_set():
            await store_calls(store, kinds)
            batches += 1
        return batches

    arriving = asyncio.create_task(sink_of_before())
    await migrate(store, migrations=[*BASELINE, CHANGE])
    stop.set()
    assert await arriving > 0
    assert await rollups_differ(store) == {}


async def test_every_statement_of_the_tables_can_run_again_on_a_database_with_rows(store: Store) -> None:
    calls = [call(status="error", error_class=each) for each in ("server", "auth", "tool")]
    await store_calls(store, calls)
    for migration in (*BASELINE, CHANGE):  # what a slower process does that began when none was applied
        for statement in migration.statements(Layout()):
            await store.command(statement)
    await store_calls(store, calls)
    assert await rollups_differ(store) == {}


async def test_after_a_restart_a_repeated_batch_is_a_copy_for_a_view_that_was_changed_before_the_first_row(
    settings: Settings,
) -> None:
    block, token = b'{"tool_name":"t","status":"error"}', {"insert_deduplication_token": "executions-0-0-0"}
    for _ in range(2):
        async with await open_store(settings) as store:
            await migrate(store, migrations=[*BASELINE, CHANGE])
            await store.raw_insert("tool_metrics", block, settings=INSERT_SETTINGS | token)
            assert await rollups_differ(store) == {}
            counted = await store.query("SELECT sum(calls) FROM tool_counts_1m")
            assert counted.result_rows == [(1,)]
