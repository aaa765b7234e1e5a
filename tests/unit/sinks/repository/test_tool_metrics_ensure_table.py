"""`ensure_table` and `ensure_initialized` with a plain chDB client: no sink has created the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client

from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.migrations import load_migrations, pending
from switchgear_sinks.repository import ToolMetricsRepository
from switchgear_sinks.store import Database

pytestmark = pytest.mark.slow


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = clickhouse_connect.get_client(interface="chdb", path=str(tmp_path))
    made.command("CREATE DATABASE app")
    made.close()
    opened = clickhouse_connect.get_client(interface="chdb", path=str(tmp_path), database="app")
    try:
        yield opened
    finally:
        opened.close()


async def test_ensure_initialized_creates_every_table_with_a_chdb_client(client: Client) -> None:
    service = ToolHealthService(client)
    await service.ensure_initialized()
    assert await pending(Database(client)) == []
    await service.record_execution("search", "u", execution_time_ms=5)
    assert (await service.check_tool_health("search")).total_calls == 1
    assert (await service.get_dashboard_summary())["summary"]["unknown"] == 1


async def test_ensure_table_leaves_stored_calls_and_the_retention_alone(client: Client) -> None:
    repository = ToolMetricsRepository(client)
    await repository.ensure_table()
    client.command("ALTER TABLE tool_metrics MODIFY COLUMN retention_days UInt16 MATERIALIZED 90")
    await repository.record(ToolMetric(tool_name="t", status="error"))
    await repository.ensure_table()
    assert client.query("SELECT tool_name, retention_days FROM tool_metrics").result_rows == [("t", 90)]


@pytest.mark.deep
async def test_ensure_table_called_at_once_by_two_repositories_creates_the_tables_once(client: Client) -> None:
    shared = Database(client)
    await asyncio.gather(*(ToolMetricsRepository(shared).ensure_table() for _ in range(2)))
    applied = client.query("SELECT version FROM schema_migrations ORDER BY version").result_rows
    assert applied == [(migration.version,) for migration in load_migrations()]
