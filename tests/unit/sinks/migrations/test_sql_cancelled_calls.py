"""Migration 0010 on a database that has rows, while a sink of the version before goes on writing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_schemas.settings import load_settings
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.migrations import Layout, load_migrations, migrate
from switchgear_sinks.repository import ToolErrorsRepository, ToolMetricsRepository
from switchgear_sinks.store import Store, open_store
from tests.support.engine import call, store_calls
from tests.support.sinking import rollups_differ

pytestmark = pytest.mark.deep

BEFORE = [each for each in load_migrations() if each.version < 10]
(THIS,) = [each for each in load_migrations() if each.version == 10]
KINDS: tuple[dict[str, Any], ...] = (
    {"status": "success"},
    {"status": "error", "error_class": "server"},
    {"status": "error"},
    {"status": "timeout"},
    {"status": "rejected"},
)
"""Events that count alike before and after."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        await migrate(opened, migrations=BEFORE)
        yield opened


async def arrive(store: Store, *kinds: dict[str, Any], at: datetime | None = None) -> None:
    """Rows as they were sent, whatever status the contract would make of them."""
    await store_calls(store, [call(at=at, execution_time_ms=100) | kind for kind in kinds])


async def test_migration_10_keeps_stored_rows_and_separates_new_cancelled_calls(store: Store) -> None:
    old = [{"status": "error", "error_class": each, "error_type": "E"} for each in ("invalid_input", "cancelled")]
    hours_ago = datetime.now(UTC) - timedelta(hours=3)
    await arrive(store, *KINDS, *old, at=hours_ago)
    with pytest.raises(ClickHouseError, match="status_is_known"):
        await arrive(store, {"status": "cancelled"})
    await migrate(store)
    stored = await store.query("SELECT status, count() FROM tool_metrics GROUP BY status ORDER BY status")
    assert [tuple(each) for each in stored.result_rows] == [
        ("error", 4),
        ("rejected", 1),
        ("success", 1),
        ("timeout", 1),
    ]

    repository, since = ToolMetricsRepository(store), hours_ago.replace(minute=0, second=0, microsecond=0)
    rolled = (await repository.get_all_tool_stats(since))["search"]
    assert (rolled["total_calls"], rolled["error_count"], rolled["caller_error_count"], rolled["cancelled_count"]) == (
        6,
        4,
        0,
        0,
    )
    raw = await repository.get_tool_stats("search", since)
    assert (raw["total_calls"], raw["error_count"], raw["caller_error_count"], raw["cancelled_count"]) == (6, 3, 1, 1)
    assert "cancelled" not in {each.error_class for each in await repository.get_recent_errors(limit=10)}

    # an older sink's row, then one of this version's
    await arrive(store, *old, {"status": "cancelled"}, {"status": "timeout", "error_class": "auth"})
    rolled = (await repository.get_all_tool_stats(since))["search"]
    assert (rolled["total_calls"], rolled["error_count"], rolled["timeout_count"]) == (10, 5, 2)
    assert (rolled["caller_error_count"], rolled["cancelled_count"]) == (2, 2)
    assert rolled["success_rate"] == 1 / 6
    report, (same,) = (
        await ToolHealthService(store).check_tool_health("search", 1),
        (await ToolHealthService(store).check_all_tools_health(1)).tool_reports,
    )
    assert report.model_dump(exclude={"checked_at"}) == same.model_dump(exclude={"checked_at"})
    assert (report.total_calls, report.caller_errors, report.cancelled_calls) == (4, 2, 2)


async def test_rows_that_arrive_during_migration_10_are_counted_once(store: Store) -> None:
    for _ in range(10):
        await arrive(store, *KINDS * 20)
    stop = asyncio.Event()

    async def sink_of_before() -> int:
        batches = 0
        while not stop.is_set():
            await arrive(store, *KINDS)
            batches += 1
        return batches

    arriving = asyncio.create_task(sink_of_before())
    await migrate(store)
    stop.set()
    assert await arriving > 0
    for statement in THIS.statements(Layout()):  # gives a part of an insert that had begun before its projections
        await store.command(statement, settings={"mutations_sync": 2})
    assert await rollups_differ(store) == {}


async def test_migration_10_can_be_repeated_also_after_the_ones_before_it(store: Store) -> None:
    await migrate(store)
    kinds = [*KINDS, {"status": "cancelled"}, *({"status": "error", "error_class": each} for each in ("auth", "tool"))]
    await arrive(store, *kinds)
    for statement in THIS.statements(Layout()):
        await store.command(statement)
    for migration in load_migrations():  # what a slower process does that began when none was applied
        for statement in migration.statements(Layout()):
            await store.command(statement)
    await arrive(store, *kinds)
    assert await rollups_differ(store) == {}
    found = await ToolErrorsRepository(store).types("search", datetime.now(UTC) - timedelta(hours=1))
    assert {each["caller_error"]: each["count"] for each in found if each["caller_error"]} == {"auth": 2, "tool": 2}
