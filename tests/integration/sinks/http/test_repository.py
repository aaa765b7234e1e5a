"""ToolMetricsRepository over HTTP: the tests it passes on the embedded engine, against a server; and any HTTP client."""

import clickhouse_connect
import pytest

from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.repository import ToolMetricsRepository
from tests.support.again import again
from tests.support.engine import call, store_calls
from tests.unit.sinks.repository import test_rollups, test_tool_errors, test_tool_metrics

pytestmark = pytest.mark.deep

globals().update(
    again(
        test_tool_metrics,
        fixtures=["repository"],
        without=[
            "test_repository_works_with_a_chdb_client",
            "test_ensure_table_creates_missing_tables_of_a_store",
        ],  # of a folder
    )
)
globals().update(again(test_tool_errors, fixtures=["errors_of"]))
globals().update(again(test_rollups, fixtures=["calls"]))


async def test_repository_works_with_a_synchronous_http_client(store):
    await store_calls(store, [call("t", "error")])
    client = clickhouse_connect.get_client(host="127.0.0.1", port=store.location.port, database=store.database)
    try:
        repository = ToolMetricsRepository(client)
        await repository.ensure_table()
        await repository.record(ToolMetric(tool_name="t", status="success"))
        assert (await repository.get_tool_stats("t"))["total_calls"] == 2
        assert await repository.cleanup_old_metrics(0) == 2
    finally:
        client.close()


async def test_repository_works_with_an_asynchronous_http_client(store):
    client = await clickhouse_connect.get_async_client(
        host="127.0.0.1", port=store.location.port, database=store.database
    )
    try:
        repository = ToolMetricsRepository(client)
        await repository.record(ToolMetric(tool_name="t", status="error", error_message="it's"))
        assert [each.error_message for each in await repository.get_recent_errors("t")] == ["it's"]
    finally:
        await client.close()
