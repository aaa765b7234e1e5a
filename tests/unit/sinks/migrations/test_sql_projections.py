"""Projections: the same rows in another order or summed up, exact whatever happens to the rows."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.repository import ToolErrorsRepository, ToolMetricsRepository
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from tests.bench.queries_plan import Recording, readings
from tests.support.engine import call, store_calls
from tests.support.sinking import rollups_differ

NOW = datetime.now(UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        yield opened


async def some_calls(store: Store, count: int, seed: int) -> None:
    chance = random.Random(seed)
    await store_calls(
        store,
        [
            call(
                chance.choice(("search", "fetch", "report")),
                chance.choices(("success", "error", "timeout", "rejected"), (70, 15, 10, 5))[0],
                NOW - timedelta(minutes=chance.uniform(0, 3000)),
                execution_time_ms=round(chance.lognormvariate(7, 1.5), 3),
                input_size=chance.randrange(1000),
                tenant=chance.choice(("", "acme")),
            )
            for _ in range(count)
        ],
    )


async def answers_are_exact(store: Store) -> None:
    """Compare answers that come from projections with those from the raw rows."""
    repository, errors = ToolMetricsRepository(store), ToolErrorsRepository(store)
    since = NOW - timedelta(hours=51, minutes=7)
    rolled = await repository.get_all_tool_stats(since, NOW)
    for name, stats in rolled.items():
        raw = await repository.get_tool_stats(name, since, NOW)
        for key in ("total_calls", "success_count", "error_count", "timeout_count", "rejected_count", "max_time_ms"):
            assert stats[key] == raw[key], (name, key)
        failed = stats["error_count"] + stats["timeout_count"]
        assert sum(each["count"] for each in await errors.templates(name)) == failed
    slow = await store.query("SELECT count() FROM tool_metrics WHERE status != 'rejected' AND execution_time_ms > 5000")
    assert len(await repository.get_slow_executions(limit=10_000)) == slow.result_rows[0][0]


@pytest.mark.deep
async def test_what_is_read_from_projections_is_what_the_rows_say(store: Store) -> None:
    await migrate(store)
    for seed in range(10):
        await some_calls(store, 100, seed)
    await answers_are_exact(store)


@pytest.mark.deep
async def test_projections_are_exact_after_merges(store: Store) -> None:
    await migrate(store)
    for seed in range(5):
        await some_calls(store, 200, seed)
    for table in ("tool_counts_1m", "tool_slow_calls", "tool_errors"):
        await store.command(f"OPTIMIZE TABLE {table} FINAL")
        parts = "SELECT uniqExact(parent_name) FROM system.projection_parts WHERE active AND table = {t:String}"
        folded = "SELECT uniqExact(partition) FROM system.parts WHERE active AND table = {t:String}"
        given = {"t": table}
        assert (await store.query(parts, given)).result_rows == (await store.query(folded, given)).result_rows
    assert await rollups_differ(store) == {}


@pytest.mark.deep
async def test_projections_count_a_repeated_insert_once(store: Store) -> None:
    await migrate(store)
    block = b"\n".join(b'{"tool_name":"t","status":"timeout","execution_time_ms":%d}' % (6000 + n) for n in range(50))
    for _ in range(3):
        token = {"insert_deduplication_token": "executions-0-0-49"}
        await store.raw_insert("tool_metrics", block, settings=INSERT_SETTINGS | token)
    assert await rollups_differ(store) == {}
    slowest = await ToolMetricsRepository(store).get_slow_executions(limit=100)
    assert [each.execution_time_ms for each in slowest] == [6049 - n for n in range(50)]


@pytest.mark.deep
async def test_projections_lose_rows_that_are_removed_or_expire(store: Store) -> None:
    await migrate(store)
    rows = [("old", 40, 40), ("expired", 1, 4000), ("kept", 1, 1)]
    await store_calls(
        store,
        [
            call(name, "timeout", NOW - timedelta(days=recorded), execution_time_ms=9000)
            | {"kafka_timestamp": f"{NOW - timedelta(days=arrived):%Y-%m-%d %H:%M:%S}"}
            for name, recorded, arrived in rows
        ],
    )
    await ToolMetricsRepository(store).cleanup_old_metrics(30)
    for table in ("tool_metrics", "tool_errors", "tool_slow_calls"):
        await store.command(f"OPTIMIZE TABLE {table} FINAL")
    for table, projection in (("tool_errors", "by_tool"), ("tool_slow_calls", "by_duration")):
        left = await store.query(
            f"SELECT tool_name FROM mergeTreeProjection(currentDatabase(), '{table}', '{projection}')"
        )
        assert left.result_rows == [("kept",)]


async def test_repository_reads_from_the_projections(store: Store) -> None:
    await migrate(store)
    await store.command(
        """INSERT INTO tool_metrics (metric_id, tool_name, status, execution_time_ms, recorded_at)
        SELECT generateUUIDv4(), concat('t', toString(number % 60)), 'timeout', if(number % 100 = 0, 30000, 6000),
            now64(6) - toIntervalSecond(intDiv(number, 60) * 30) FROM numbers(300000)"""
    )
    a_day_ago = (NOW - timedelta(hours=24)).replace(minute=7, second=0, microsecond=0)
    for ask, sources in (
        (
            lambda client: ToolMetricsRepository(client).get_all_tool_stats(a_day_ago),
            {"per_hour", "by_minute", "tool_latency_15m"},
        ),
        (lambda client: ToolMetricsRepository(client).get_slow_executions(), {"by_duration"}),
        (lambda client: ToolErrorsRepository(client).templates("t7"), {"by_tool"}),
    ):
        client = Recording(store)
        await ask(client)
        plans = [each for sql, parameters in client.seen for each in await readings(store, sql, parameters)]
        assert {each.table for each in plans} == sources
        assert sum(each.selected for each in plans) < sum(each.total for each in plans)
