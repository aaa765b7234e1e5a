"""Migration 0013 on a database that has rows: what a call was about, how late it was, and processes whose clock is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import load_migrations, migrate
from switchgear_sinks.store import Store, open_store
from tests.support.engine import call, store_calls

BEFORE = [each for each in load_migrations() if each.version < 13]
NOW = datetime(2026, 11, 28, 12, 0, 5, tzinfo=UTC)
COLUMNS = "target, credential, overdue_ms, evidence"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        await migrate(opened, migrations=BEFORE)
        yield opened


async def _rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    return [tuple(each) for each in (await store.query(sql)).result_rows]


@pytest.mark.deep
async def test_migration_13_keeps_calls_and_stores_what_a_call_was_about_and_how_late_it_was(store: Store) -> None:
    await store_calls(store, [call(status="error", error_class="transport", execution_time_ms=6_000)])
    await migrate(store)
    late: dict[str, Any] = {"target": "example.org", "credential": "c", "overdue_ms": 5_500, "evidence": "status_only"}
    await store_calls(store, [call(status="timeout", execution_time_ms=7_000, **late)])
    for table in ("tool_metrics", "tool_errors", "tool_slow_calls"):
        found = await _rows(store, f"SELECT {COLUMNS} FROM {table} ORDER BY target")
        assert found == [("", "", None, "full"), ("example.org", "c", 5_500, "status_only")], table
    assert await _rows(store, "SELECT DISTINCT recorded_as FROM tool_metrics") == [("",)]


def _sent(emitter_id: str, off_s: float, **more: Any) -> dict[str, Any]:
    arrived = {"kafka_timestamp": NOW.isoformat()}
    return call(at=NOW + timedelta(seconds=off_s), emitter_id=emitter_id) | arrived | more


@pytest.mark.deep
async def test_only_processes_whose_clock_is_more_than_a_minute_off_are_kept(store: Store) -> None:
    await migrate(store)
    ahead = (NOW + timedelta(days=90)).isoformat()
    naive = (NOW + timedelta(hours=2)).replace(tzinfo=None).isoformat()
    await store_calls(
        store,
        [
            *[_sent("right", off) for off in (-60, 0, 60)],
            _sent("behind", -61),
            _sent("behind", -3_600),
            _sent("ahead", 0, recorded_as=ahead),
            _sent("naive", 0, recorded_as=naive),
        ],
    )
    found = await _rows(
        store,
        "SELECT emitter_id, sum(events), sum(ahead), sum(behind), sum(without_zone), min(least_s), max(most_s)"
        " FROM emitter_clocks GROUP BY emitter_id ORDER BY emitter_id",
    )
    assert found == [
        ("ahead", 1, 1, 0, 0, 90 * 86_400, 90 * 86_400),
        ("behind", 2, 0, 2, 0, -3_600, -61),
        ("naive", 1, 1, 0, 1, 7_200, 7_200),
    ]
