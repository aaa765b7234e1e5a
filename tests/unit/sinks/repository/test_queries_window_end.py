"""Calls that an older release stored with a time in the future: they are in no window up to now, and head no list."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import CircuitsRepository, ToolMetricsRepository
from switchgear_sinks.repository.queries import window_end
from switchgear_sinks.repository.tool_errors import ToolErrorsRepository
from tests.support.engine import call, store_calls
from tests.support.table import table

TOOL = "search"
NOT_YET = (timedelta(hours=2), timedelta(days=1), timedelta(days=20_000))


@table(
    ("now", "end"),
    [
        (datetime(2026, 11, 28, 12, 0, tzinfo=UTC), datetime(2026, 11, 28, 12, 1, 59, 999_999, tzinfo=UTC)),
        (
            datetime(2026, 11, 28, 12, 0, 59, 999_999, tzinfo=UTC),
            datetime(2026, 11, 28, 12, 1, 59, 999_999, tzinfo=UTC),
        ),
        (datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC), datetime(2027, 1, 1, 0, 0, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_a_window_ends_with_the_next_minute_so_a_clock_that_is_a_minute_ahead_is_inside(now, end):
    assert window_end(now) == end
    assert end - now >= timedelta(seconds=60) - timedelta(microseconds=1)


@pytest.fixture
async def now(store):
    """Five successes and an error of the last minutes, a success half a minute ahead, and twelve failures that are further ahead."""
    at = datetime.now(UTC)
    refused = {"metadata": {"refused_by": "local", "refused": 1}, "emitter_id": "p"}
    await store_calls(
        store,
        [
            *[call(TOOL, at=at - timedelta(minutes=each)) for each in range(5)],
            call(
                TOOL,
                "error",
                at=at - timedelta(minutes=1),
                error_type="E",
                error_message="real",
                execution_time_ms=6_000,
            ),
            call(TOOL, at=at + timedelta(seconds=30)),
            *[
                call(
                    TOOL,
                    status,
                    at=at + ahead,
                    error_message="from the future",
                    error_type="F",
                    execution_time_ms=9_000,
                )
                for ahead in NOT_YET
                for status in ("error", "timeout", "error", "error")
            ],
            *[call(TOOL, "rejected", at=at + ahead, **refused) for ahead in NOT_YET],
        ],
    )
    return at


async def test_rows_in_the_future_of_an_older_release_are_in_no_window(store, now):
    repository = ToolMetricsRepository(store)
    hour, day = (now - timedelta(hours=each) for each in (1, 24))
    whole = hour.replace(second=0, microsecond=0)
    for stats in (
        await repository.get_tool_stats(TOOL),
        await repository.get_tool_stats(TOOL, hour),
        *[(await repository.get_all_tool_stats(since))[TOOL] for since in (None, hour, whole, day)],
    ):
        assert (stats["total_calls"], stats["error_count"], stats["timeout_count"]) == (7, 1, 0)
        assert stats["p99_time_ms"] <= 6_600
    errors = ToolErrorsRepository(store)
    assert await errors.count(TOOL, hour) == 1
    for groups in (await errors.types(TOOL), await errors.types(TOOL, hour), await errors.types(None, day)):
        assert [(each["error_type"], each["count"], each["example"]) for each in groups] == [("E", 1, "real")]
    assert [each["count"] for each in await errors.templates(TOOL, since=hour)] == [1]
    assert await CircuitsRepository(store).local(hour) == []


async def test_a_call_in_2099_heads_no_list(store, now):
    repository = ToolMetricsRepository(store)
    assert [each.error_message for each in await repository.get_recent_errors(limit=3)] == ["real"]
    newest = await repository.get_recent_executions(TOOL, limit=2)
    assert [each.recorded_at for each in newest] == [now + timedelta(seconds=30), now]
    assert len(await repository.get_recent_executions(TOOL)) == 7


async def test_calls_later_in_this_hour_hide_none_that_were_made(store, monkeypatch):
    """The counts of the hour have them too, so the rows since then are fewer than they say."""
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    monkeypatch.setattr("switchgear_sinks.repository.tool_metrics.window_end", lambda _: noon + timedelta(minutes=10))
    made = [call(TOOL, "error", at=noon - timedelta(hours=each)) for each in range(1, 4)]
    await store_calls(store, [*made, *[call(TOOL, "error", at=noon + timedelta(minutes=40))] * 5])
    repository = ToolMetricsRepository(store)
    for read in (repository.get_recent_errors, repository.get_recent_executions):
        assert [noon - each.recorded_at for each in await read(TOOL, 3)] == [
            timedelta(hours=each) for each in range(1, 4)
        ]


async def test_the_last_success_and_failure_have_happened(store, now):
    repository = ToolMetricsRepository(store)
    assert [each.error_message for each in await repository.get_slow_executions()] == ["real"]
    last = await repository.get_last_calls(TOOL)
    assert last["last_error"] == "real"
    assert last["last_failure"] <= now < last["last_success"] <= now + timedelta(seconds=30)


async def test_failures_that_have_not_happened_yet_make_no_tool_unhealthy(store, now):
    service = ToolHealthService(store)
    report = await service.check_tool_health(TOOL)
    assert (report.total_calls, report.recent_errors, report.rejected_calls) == (7, 1, 0)
    assert (await service.check_all_tools_health()).tool_reports[0].recent_errors == 1
    assert not await service.should_circuit_break(TOOL)
    assert (await service.get_error_patterns(TOOL))["total_errors"] == 1
