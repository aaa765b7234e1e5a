"""The reference documents' ToolMetricsRepository, method by method, on the real engine."""

from datetime import UTC, datetime, timedelta

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from switchgear_schemas import ToolExecution
from switchgear_schemas.enums import MOST_MS, MOST_TOKENS
from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.repository import ToolMetricsRepository
from switchgear_sinks.repository.tool_metrics import to_metric
from tests.bench.queries_plan import Recording, readings
from tests.support.engine import call, store_calls

pytestmark = pytest.mark.slow

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
STATS = {
    "tool_name": str,
    "total_calls": int,
    "success_count": int,
    "error_count": int,
    "timeout_count": int,
    "success_rate": float,
    "avg_time_ms": float,
    "min_time_ms": float,
    "max_time_ms": float,
    "total_input_bytes": int,
    "total_output_bytes": int,
    "period": dict,
}


@pytest.fixture
def repository(store) -> ToolMetricsRepository:
    return ToolMetricsRepository(store)


async def test_a_recorded_metric_comes_back_as_it_was(repository):
    metric = ToolMetric(
        tool_name="mcp:weather:get_forecast",
        user_id="user-1",
        session_id="session-1",
        request_id="request-1",
        status="error",
        execution_time_ms=12.5,
        error_type="ValueError",
        error_message="an 'odd' message; with \\ and \n and ünïcode",
        error_class="tool",
        parameters_hash="abc",
        input_size=10,
        output_size=2**40,
        cost_usd=0.25,
        generation=0,
        retry_after_s=1.5,
        probe_requested=True,
        metadata={"nested": {"list": [1, 2.5, None, True]}},
        recorded_at=datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
    )
    assert await repository.record(metric) is metric
    assert await repository.get_recent_executions("mcp:weather:get_forecast") == [metric]
    assert await repository.get_recent_errors() == [metric]


async def test_sums_of_the_largest_tokens_never_wrap(store):
    most = {"input_tokens": MOST_TOKENS, "output_tokens": MOST_TOKENS, "cache_creation_tokens": MOST_TOKENS}
    await store_calls(store, [call("t", **most) for _ in range(10)])
    tokens = "sum(input_tokens + output_tokens + cache_creation_tokens)"
    found = await store.query(f"SELECT toTypeName({tokens}), {tokens} FROM tool_metrics")
    assert found.result_rows == [("UInt64", 30 * MOST_TOKENS)]
    assert 3 * MOST_TOKENS * 6_000_000_000 < 2**64, "nor of six billion such calls"


def test_a_row_of_a_release_without_bounds_is_cut_where_it_is_read():
    row = {"tool_name": "t", "status": "success", "execution_time_ms": 1e300, "input_tokens": 2**62, "cost_usd": 1e300}
    found = to_metric(row | {"output_size": 2**53})
    assert (found.execution_time_ms, found.input_tokens) == (MOST_MS, MOST_TOKENS)
    assert (found.output_size, found.cost_usd) == (2**40, 10**6)


async def test_minimal_metric_comes_back_with_defaults_only(repository):
    metric = ToolMetric(tool_name="t", status="success")
    await repository.record(metric)
    (stored,) = await repository.get_recent_executions("t")
    assert stored == metric
    assert (stored.session_id, stored.error_type, stored.metadata, stored.generation) == (None, None, {}, None)


async def test_metric_recorded_twice_is_two_rows(repository):
    metric = ToolMetric(tool_name="t", status="success")
    await repository.record(metric)
    await repository.record(metric)
    assert (await repository.get_tool_stats("t"))["total_calls"] == 2


async def test_statistics_have_the_documented_keys_and_types(repository, store):
    await store_calls(
        store,
        [
            call("search", execution_time_ms=50, input_size=100, output_size=1000),
            call("search", execution_time_ms=500, input_size=1),
            call("search", "error", execution_time_ms=100),
            call("search", "timeout", execution_time_ms=150),
            call("other", "error"),
        ],
    )
    stats = await repository.get_tool_stats("search")
    for key, kind in STATS.items():
        assert type(stats[key]) is kind, key
    assert {key: stats[key] for key in STATS} == {
        "tool_name": "search",
        "total_calls": 4,
        "success_count": 2,
        "error_count": 1,
        "timeout_count": 1,
        "success_rate": 0.5,
        "avg_time_ms": 200.0,
        "min_time_ms": 50.0,
        "max_time_ms": 500.0,
        "total_input_bytes": 101,
        "total_output_bytes": 1000,
        "period": {"since": None, "until": None},
    }


@pytest.mark.parametrize("since", [None, NOW, datetime(2090, 1, 1, tzinfo=UTC)])
async def test_statistics_of_a_tool_without_calls_are_zeros(repository, since):
    stats = await repository.get_tool_stats("nobody", since=since)
    assert {key: stats[key] for key in STATS if key not in {"tool_name", "period"}} == {
        key: 0 for key in STATS if key not in {"tool_name", "period"}
    }
    assert stats["p95_time_ms"] == 0.0


async def test_rejected_call_is_in_no_total_rate_or_time(repository, store):
    await store_calls(
        store, [call("search", execution_time_ms=100), *[call("search", "rejected", execution_time_ms=0)] * 3]
    )
    stats = await repository.get_tool_stats("search")
    assert (stats["total_calls"], stats["rejected_count"], stats["success_rate"]) == (1, 3, 1.0)
    assert (stats["min_time_ms"], stats["avg_time_ms"]) == (100.0, 100.0)
    assert len(await repository.get_recent_executions("search")) == 4


async def test_statistics_include_both_ends_of_a_period(repository, store):
    await store_calls(store, [call("t", at=NOW + timedelta(microseconds=us)) for us in (-1, 0, 1, 2)])
    since, until = NOW, NOW + timedelta(microseconds=1)
    stats = await repository.get_tool_stats("t", since=since, until=until)
    assert stats["total_calls"] == 2
    assert stats["period"] == {"since": since.isoformat(), "until": until.isoformat()}


async def test_period_without_a_zone_is_utc(repository, store):
    await store_calls(store, [call("t", at=NOW)])
    assert (await repository.get_tool_stats("t", since=NOW.replace(tzinfo=None)))["total_calls"] == 1
    elsewhere = NOW.astimezone(datetime.strptime("+05:30", "%z").tzinfo)
    assert (await repository.get_tool_stats("t", since=elsewhere, until=elsewhere))["total_calls"] == 1


@pytest.mark.parametrize(
    "name", ["it's", "a\\b", "'; DROP TABLE tool_metrics; --", "{x:String}", "%(x)s", "ünï", "a/b?c"]
)
async def test_tool_name_is_bound_as_a_value_and_never_runs_as_sql(repository, name):
    await repository.record(ToolMetric(tool_name=name, status="error", error_message=name))
    assert (await repository.get_tool_stats(name))["total_calls"] == 1
    assert [metric.tool_name for metric in await repository.get_recent_errors(name)] == [name]
    assert await repository.get_all_tool_names() == [name]


async def test_recent_errors_are_errors_and_timeouts_newest_first_ten_by_default(repository, store):
    statuses = ("error", "success", "timeout", "rejected")
    calls = [call("t", statuses[n % 4], NOW + timedelta(seconds=n), error_message=str(n)) for n in range(48)]
    await store_calls(store, calls)
    errors = await repository.get_recent_errors()
    assert [int(metric.error_message or "") for metric in errors] == [46, 44, 42, 40, 38, 36, 34, 32, 30, 28]
    assert all(isinstance(metric, ToolMetric) for metric in errors)
    assert len(await repository.get_recent_errors(limit=100)) == 24
    assert await repository.get_recent_errors("nobody") == []
    assert await repository.get_recent_errors(limit=0) == []


async def test_tool_names_are_all_those_with_metrics_sorted(repository, store):
    assert await repository.get_all_tool_names() == []
    await store_calls(store, [call("b"), call("a", "rejected"), call("b")])
    assert await repository.get_all_tool_names() == ["a", "b"]


async def test_slow_means_slower_than_the_threshold_five_seconds_by_default(repository, store):
    durations = (4999, 5000, 5000.001, 9000, 7000)
    await store_calls(store, [call("t", execution_time_ms=each) for each in durations])
    await store_calls(store, [call("t", "rejected", execution_time_ms=99_999)])
    slow = await repository.get_slow_executions()
    assert [metric.execution_time_ms for metric in slow] == [9000, 7000, 5000.001]
    assert len(await repository.get_slow_executions(threshold_ms=0, limit=2)) == 2
    assert await repository.get_slow_executions(since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert await repository.get_slow_executions(tool_name="other") == []


async def test_twenty_slow_executions_and_a_hundred_recent_ones_are_returned_by_default(repository, store):
    await store_calls(store, [call("t", at=NOW + timedelta(seconds=n), execution_time_ms=6000 + n) for n in range(120)])
    assert len(await repository.get_slow_executions()) == 20
    recent = await repository.get_recent_executions("t")
    assert [metric.recorded_at for metric in recent] == [NOW + timedelta(seconds=119 - n) for n in range(100)]
    assert len(await repository.get_recent_executions("t", limit=7)) == 7


async def test_negative_limit_is_an_error_that_names_the_field(repository):
    for read in (repository.get_recent_errors, repository.get_slow_executions):
        with pytest.raises(ValueError, match="limit must not be negative"):
            await read(limit=-1)


async def test_cleanup_removes_what_is_older_and_says_how_much(repository, store):
    now = datetime.now(UTC)
    days = (0, 1, 29, 31, 40, 100)
    await store_calls(store, [call("t", "error", now - timedelta(days=each)) for each in days])
    assert await repository.cleanup_old_metrics() == 3
    assert (await repository.get_tool_stats("t"))["total_calls"] == 3
    assert len(await repository.get_recent_errors()) == 3
    assert await repository.cleanup_old_metrics(older_than_days=30) == 0
    assert await repository.cleanup_old_metrics(older_than_days=0) == 3
    assert await repository.get_all_tool_names() == []


async def test_cleanup_of_negative_days_is_refused(repository):
    with pytest.raises(ValueError, match="older_than_days"):
        await repository.cleanup_old_metrics(-1)


async def test_a_tenants_repository_sees_and_cleans_its_own_rows_only(store):
    old = datetime.now(UTC) - timedelta(days=50)
    await store_calls(
        store, [call("t", at=old, tenant="a"), call("t", "error", old, tenant="b"), call("u", tenant="b")]
    )
    ours, theirs = ToolMetricsRepository(store, tenant="a"), ToolMetricsRepository(store, tenant="b")
    assert await ours.get_all_tool_names() == ["t"]
    assert await ours.get_recent_errors() == []
    assert await ours.cleanup_old_metrics() == 1
    assert (await theirs.get_tool_stats("t"))["error_count"] == 1
    assert (await ToolMetricsRepository(store).get_tool_stats("t"))["total_calls"] == 1


async def test_last_calls_cover_everything_that_is_stored(repository, store):
    await store_calls(
        store,
        [
            call("t", at=NOW),
            call("t", "error", NOW + timedelta(seconds=1), error_type="A", error_message="first"),
            call("t", "timeout", NOW + timedelta(seconds=2), error_type="Late"),
        ],
    )
    assert await repository.get_last_calls("t") == {
        "stored": 3,
        "last_success": NOW,
        "last_failure": NOW + timedelta(seconds=2),
        "last_error": "Late",
    }
    assert await repository.get_last_calls("nobody") == {
        "stored": 0,
        "last_success": None,
        "last_failure": None,
        "last_error": None,
    }


async def test_repository_works_with_a_chdb_client(store):
    await store_calls(store, [call("t", "error")])
    client = clickhouse_connect.get_client(interface="chdb", path=str(store.location.folder), database=store.database)
    try:
        repository = ToolMetricsRepository(client)
        await repository.ensure_table()
        await repository.record(ToolMetric(tool_name="t", status="success"))
        assert (await repository.get_tool_stats("t"))["total_calls"] == 2
        assert len(await repository.get_recent_errors("t", 5)) == 1
        assert await repository.cleanup_old_metrics(0) == 2
        client.command("CREATE DATABASE IF NOT EXISTS elsewhere")
        client.database = "elsewhere"
        with pytest.raises(DatabaseError):
            await repository.get_all_tool_names()
    finally:
        client.close()


async def test_ensure_table_creates_missing_tables_of_a_store(store):
    await store.command("CREATE DATABASE IF NOT EXISTS fresh")
    await store.command("DROP TABLE tool_metrics SYNC")
    try:
        with pytest.raises(DatabaseError):
            await ToolMetricsRepository(store).get_all_tool_names()
    finally:
        await store.command("TRUNCATE TABLE schema_migrations")
        await ToolMetricsRepository(store).ensure_table()
    assert await ToolMetricsRepository(store).get_all_tool_names() == []


def test_tool_metric_is_the_execution_of_the_schemas():
    metric = ToolMetric(tool_name="t", status="success", metadata={"a": 1})
    assert ToolMetric is ToolExecution
    assert ToolMetric.from_dict(metric.to_dict()) == metric
    documented = {
        "metric_id", "tool_name", "user_id", "session_id", "request_id", "status", "execution_time_ms", "error_type",
        "error_message", "parameters_hash", "input_size", "output_size", "metadata", "recorded_at",
    }  # fmt: skip
    assert documented <= set(metric.to_dict())


async def test_last_calls_are_known_after_their_rows_were_removed(repository, store):
    await store_calls(store, [call("t", at=NOW), call("t", "error", NOW, error_message="m")])
    await repository.cleanup_old_metrics(0)
    assert await repository.get_last_calls("t") == {
        "stored": 0,
        "last_success": NOW,
        "last_failure": NOW,
        "last_error": None,
    }
    assert await repository.get_all_tool_names() == []
    assert await repository.get_known_tool_names() == ["t"]


async def test_known_tools_are_the_tenants_own(store):
    await store_calls(store, [call("a", tenant="x"), call("b", tenant="y")])
    assert await ToolMetricsRepository(store, tenant="x").get_known_tool_names() == ["a"]
    assert await ToolMetricsRepository(store).get_known_tool_names() == ["a", "b"]


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
async def test_recent_errors_are_found_however_far_back_they_lie(repository, store, limit):
    days = (0, 0, 1, 1, 1, 2, 300, 300)
    await store_calls(
        store,
        [call("t", "error", NOW - timedelta(days=n, seconds=s), error_message=f"{n}") for s, n in enumerate(days)],
    )
    found = await repository.get_recent_errors("t", limit)
    assert [int(each.error_message or "") for each in found] == list(days[:limit])
    assert await repository.get_recent_errors(limit=limit) == found


async def test_recent_errors_are_found_where_newer_ones_were_removed(repository, store):
    await store_calls(store, [call("t", "error", NOW - timedelta(minutes=n)) for n in range(20)])
    for table in ("tool_metrics", "tool_errors"):
        await store.command(
            f"ALTER TABLE {table} DELETE WHERE recorded_at > toDateTime64('2026-03-01 11:50:00', 6, 'UTC') SETTINGS mutations_sync = 2"
        )
    assert len(await repository.get_recent_errors("t")) == 9


@pytest.mark.parametrize("limit", [0, 1, 7, 60, 61, 500])
async def test_recent_executions_are_the_newest_wherever_they_lie(repository, store, limit):
    """Sixty within one minute, one a day ago, refused ones among them, and another tool between."""
    at = [NOW - timedelta(milliseconds=100 * n) for n in range(60)] + [NOW - timedelta(days=1)]
    calls = [call("t", "rejected" if n % 5 == 0 else "success", each) for n, each in enumerate(at)]
    await store_calls(store, [*calls, *[call("u", at=each) for each in at]])
    found = await repository.get_recent_executions("t", limit)
    assert [each.recorded_at for each in found] == sorted(at, reverse=True)[:limit]
    assert {each.tool_name for each in found} <= {"t"}


async def test_recent_executions_are_found_where_newer_ones_were_removed(repository, store):
    await store_calls(store, [call("t", at=NOW - timedelta(minutes=n)) for n in range(20)])
    before = f"recorded_at > fromUnixTimestamp64Micro({int((NOW - timedelta(minutes=10)).timestamp() * 1e6)}, 'UTC')"
    await store.command(f"ALTER TABLE tool_metrics DELETE WHERE {before} SETTINGS mutations_sync = 2")
    assert len(await repository.get_recent_executions("t", 5)) == 5
    assert len(await repository.get_recent_executions("t")) == 10


async def test_the_newest_calls_of_a_busy_tool_are_read_from_the_minutes_they_lie_in(store):
    await store.command(
        """INSERT INTO tool_metrics (metric_id, tool_name, status, recorded_at)
        SELECT generateUUIDv4(), if(number % 2 = 0, 'busy', 'other'), 'success',
            now64(6) - toIntervalMillisecond(number * 100) FROM numbers(400000)"""
    )
    client = Recording(store)
    assert len(await ToolMetricsRepository(client).get_recent_executions("busy")) == 100
    plans = [each for sql, parameters in client.seen for each in await readings(store, sql, parameters)]
    (raw,) = [each for each in plans if each.table == "tool_metrics"]
    assert (raw.by_key <= 2, raw.total >= 40) == (True, True)
