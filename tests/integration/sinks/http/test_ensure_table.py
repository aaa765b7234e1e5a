"""`ensure_table` and `ensure_initialized` with plain HTTP clients: no sink has created the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import clickhouse_connect
import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.migrations import MigrationError, load_migrations, pending
from switchgear_sinks.repository import ToolMetricsRepository
from switchgear_sinks.store import Database
from tests.support.clickhouse_http import READER, ClickHouseServer, clickhouse_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    with clickhouse_server(tmp_path_factory.mktemp("server"), any_free_port()) as running:
        with clickhouse_connect.get_client(host="127.0.0.1", port=running.port) as client:
            for database in ("synchronous", "asynchronous", "together", "refused"):
                client.command(f"CREATE DATABASE {database}")
        yield running


async def test_ensure_initialized_creates_every_table_with_a_synchronous_client(server: ClickHouseServer) -> None:
    with clickhouse_connect.get_client(host="127.0.0.1", port=server.port, database="synchronous") as client:
        service = ToolHealthService(client)
        await service.ensure_initialized()
        assert await pending(Database(client)) == []
        await service.record_execution("search", "u", execution_time_ms=5)
        assert (await service.check_tool_health("search")).total_calls == 1


async def test_ensure_table_creates_every_table_with_an_asynchronous_client(server: ClickHouseServer) -> None:
    async with await clickhouse_connect.get_async_client(
        host="127.0.0.1", port=server.port, database="asynchronous"
    ) as client:
        repository = ToolMetricsRepository(client)
        await repository.ensure_table()
        await repository.ensure_table()
        assert await pending(Database(client)) == []
        await repository.record(ToolMetric(tool_name="t", status="success"))
        assert (await repository.get_tool_stats("t"))["total_calls"] == 1


@pytest.mark.deep
async def test_two_clients_that_create_the_tables_at_once_wait_for_each_other(server: ClickHouseServer) -> None:
    with (
        clickhouse_connect.get_client(host="127.0.0.1", port=server.port, database="together") as one,
        clickhouse_connect.get_client(host="127.0.0.1", port=server.port, database="together") as other,
    ):
        await asyncio.gather(*(ToolMetricsRepository(each).ensure_table() for each in (one, other)))
        applied = one.query("SELECT version FROM schema_migrations ORDER BY version").result_rows
        assert applied == [(migration.version,) for migration in load_migrations()]


@pytest.mark.deep
async def test_ensure_table_says_why_clickhouse_refuses_to_create_the_tables(server: ClickHouseServer) -> None:
    with (
        clickhouse_connect.get_client(
            host="127.0.0.1", port=server.port, database="refused", username=READER
        ) as client,
        pytest.raises(MigrationError, match=r"The migrations failed: .*readonly"),
    ):
        await ToolMetricsRepository(client).ensure_table()
