"""The slowest calls from the table of slow ones: the same as from all rows, whatever the threshold."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.repository import ToolMetricsRepository
from tests.bench.queries_plan import Recording, readings
from tests.support.engine import call, store_calls

NOW = datetime.now(UTC)


@pytest.fixture
async def calls(store):
    chance = random.Random(3)
    stored = [
        call(
            chance.choice("abc"),
            chance.choices(("success", "error", "timeout", "cancelled", "rejected"), (80, 6, 8, 2, 4))[0],
            NOW - timedelta(minutes=chance.uniform(0, 600)),
            execution_time_ms=chance.choice((5000, 5000.001, 30_000, round(chance.lognormvariate(7, 1.5), 3))),
            tenant=chance.choice(("", "acme")),
        )
        for _ in range(2000)
    ]
    await store_calls(store, stored)
    return stored


@pytest.mark.deep
async def test_slow_executions_are_the_slowest_of_all_rows(store, calls):
    slow = sorted((each["execution_time_ms"] for each in calls if each["status"] != "rejected"), reverse=True)
    for threshold in (0, 100, 4999.9, 5000, 5000.001, 29_999, 30_000, 10**9):
        for limit in (0, 1, 20, 700, 1999):
            found = await ToolMetricsRepository(store).get_slow_executions(threshold, limit)
            assert [each.execution_time_ms for each in found] == [ms for ms in slow if ms > threshold][:limit], (
                threshold,
                limit,
            )
            assert len({each.metric_id for each in found}) == len(found)


async def test_slow_executions_can_be_narrowed_by_tool_tenant_and_time(store, calls):
    since = NOW - timedelta(minutes=300)
    found = await ToolMetricsRepository(store, tenant="acme").get_slow_executions(
        limit=5000, since=since, tool_name="a"
    )
    wanted = [
        each["metric_id"]
        for each in calls
        if each["tenant"] == "acme" and each["tool_name"] == "a" and each["execution_time_ms"] > 5000
        and each["status"] != "rejected" and datetime.fromisoformat(each["recorded_at"]) >= since
    ]  # fmt: skip
    assert sorted(str(each.metric_id) for each in found) == sorted(wanted)
    assert wanted


async def test_equally_slow_calls_come_newest_first(store):
    await store_calls(store, [call("t", at=NOW - timedelta(seconds=n), execution_time_ms=30_000) for n in range(30)])
    found = await ToolMetricsRepository(store).get_slow_executions()
    assert [each.recorded_at for each in found] == [NOW - timedelta(seconds=n) for n in range(20)]


async def test_only_slow_calls_are_read_however_many_calls_there_are(store):
    await store.command(
        """INSERT INTO tool_metrics (metric_id, tool_name, status, execution_time_ms, recorded_at)
        SELECT generateUUIDv4(), concat('t', toString(number % 10)), 'success', if(number % 200 = 0, 30000, 10),
            now64(6) - toIntervalSecond(number % 80000) FROM numbers(300000)"""
    )
    client = Recording(store)
    assert len(await ToolMetricsRepository(client).get_slow_executions()) == 20
    (statement,) = client.seen
    assert {each.table for each in await readings(store, *statement)} == {"tool_slow_calls"}
    stored = {each: await rows_of(store, each) for each in ("tool_metrics", "tool_slow_calls")}
    assert stored == {"tool_metrics": 300_000, "tool_slow_calls": 1_500}


async def rows_of(store, table) -> int:
    return (await store.query(f"SELECT count() FROM {table}")).result_rows[0][0]


async def test_cleanup_removes_slow_calls(store):
    await store_calls(store, [call("t", at=NOW - timedelta(days=40), execution_time_ms=7000)])
    await ToolMetricsRepository(store).cleanup_old_metrics()
    assert (await store.query("SELECT count() FROM tool_slow_calls")).result_rows[0][0] == 0
