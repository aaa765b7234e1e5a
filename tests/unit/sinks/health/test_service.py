"""The reference documents' ToolHealthService: each method, argument, default, threshold and key, on the real engine."""

import inspect
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from switchgear_schemas.execution import ToolMetric
from switchgear_schemas.health import HealthStatus, SystemHealthReport, ToolHealthReport
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import ToolMetricsRepository
from tests.support.deep import some
from tests.support.engine import call, store_calls
from tests.support.table import table

REQUIRED = inspect.Parameter.empty
SIGNATURES = {
    (ToolMetricsRepository, "__init__"): {"db": REQUIRED, "logger": None},
    (ToolMetricsRepository, "record"): {"metric": REQUIRED},
    (ToolMetricsRepository, "get_tool_stats"): {"tool_name": REQUIRED, "since": None, "until": None},
    (ToolMetricsRepository, "get_recent_errors"): {"tool_name": None, "limit": 10},
    (ToolMetricsRepository, "get_all_tool_names"): {},
    (ToolMetricsRepository, "get_slow_executions"): {"threshold_ms": 5000, "limit": 20},
    (ToolMetricsRepository, "get_recent_executions"): {"tool_name": REQUIRED, "limit": 100},
    (ToolMetricsRepository, "cleanup_old_metrics"): {"older_than_days": 30},
    (ToolHealthService, "__init__"): {
        "db": REQUIRED, "repository": None, "registered_tool_names": None, "logger": None,
    },
    (ToolHealthService, "ensure_initialized"): {},
    (ToolHealthService, "record_execution"): {
        "tool_name": REQUIRED, "user_id": REQUIRED, "status": "success", "execution_time_ms": 0, "session_id": None,
        "request_id": None, "error_type": None, "error_message": None, "metadata": None,
    },
    (ToolHealthService, "check_tool_health"): {"tool_name": REQUIRED, "period_hours": 1},
    (ToolHealthService, "check_all_tools_health"): {"period_hours": 1},
    (ToolHealthService, "should_circuit_break"): {"tool_name": REQUIRED, "error_threshold": 5, "window_minutes": 5},
    (ToolHealthService, "get_error_patterns"): {"tool_name": REQUIRED, "limit": 20},
    (ToolHealthService, "get_dashboard_summary"): {},
    (ToolHealthService, "get_health_summary"): {},
    (ToolHealthService, "get_tool_health"): {"tool_name": REQUIRED},
    (ToolHealthService, "set_registered_tools"): {"tool_names": REQUIRED},
}  # fmt: skip
REPORT = {
    "tool_name": str, "status": HealthStatus, "success_rate": float, "avg_latency_ms": float, "total_calls": int,
    "recent_errors": int, "issues": list, "recommendations": list, "checked_at": datetime,
}  # fmt: skip
FUTURE_IN_HOURS = 1 / 60


@pytest.fixture
def service(store) -> ToolHealthService:
    return ToolHealthService(store)


async def calls_of(store, succeeded=0, failed=0, timed_out=0, each_ms=100.0, tool="search", **fields):
    statuses = ["success"] * succeeded + ["error"] * failed + ["timeout"] * timed_out
    await store_calls(store, [call(tool, status, execution_time_ms=each_ms, **fields) for status in statuses])


@table(("owner", "method"), SIGNATURES, ids=[f"{owner.__name__}.{name}" for owner, name in SIGNATURES])
def test_every_documented_argument_is_there_in_its_place_with_its_default(owner, method):
    positional = {
        name: parameter.default
        for name, parameter in inspect.signature(getattr(owner, method)).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    }
    assert list(positional.items()) == list(SIGNATURES[owner, method].items())
    blocking = {"__init__", "set_registered_tools"}
    assert inspect.iscoroutinefunction(getattr(owner, method)) is (method not in blocking)


def test_the_thresholds_are_the_documented_ones():
    assert (ToolHealthService.SUCCESS_RATE_HEALTHY, ToolHealthService.SUCCESS_RATE_DEGRADED) == (0.95, 0.80)
    assert (ToolHealthService.LATENCY_HEALTHY_MS, ToolHealthService.LATENCY_DEGRADED_MS) == (2000, 5000)
    assert ToolHealthService.MIN_CALLS_FOR_ASSESSMENT == 5
    assert {status.name: status.value for status in HealthStatus} == {
        "HEALTHY": "healthy", "DEGRADED": "degraded", "UNHEALTHY": "unhealthy", "UNKNOWN": "unknown",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("succeeded", "failed", "timed_out", "status"),
    some([
        (0, 0, 0, "unknown"),
        (4, 0, 0, "unknown"),
        (0, 4, 0, "unknown"),
        (5, 0, 0, "healthy"),
        (0, 5, 0, "unhealthy"),
        (19, 1, 0, "healthy"),  # 0.95
        (19, 0, 1, "healthy"),
        (9499, 501, 0, "degraded"),  # 0.9499
        (18, 1, 0, "degraded"),  # 0.947
        (4, 1, 0, "degraded"),  # 0.80
        (80, 10, 10, "degraded"),
        (7999, 2001, 0, "unhealthy"),  # 0.7999
        (79, 21, 0, "unhealthy"),
    ], 5),
)  # fmt: skip
async def test_status_follows_the_success_rate(service, store, succeeded, failed, timed_out, status):
    await calls_of(store, succeeded, failed, timed_out)
    report = await service.check_tool_health("search")
    assert report.status.value == status
    assert report.total_calls == succeeded + failed + timed_out
    assert report.recent_errors == failed + timed_out
    assert report.success_rate == (succeeded / report.total_calls if report.total_calls else 0.0)


@pytest.mark.parametrize(
    ("each_ms", "status"),
    [(0, "healthy"), (2000, "healthy"), (2000.001, "degraded"), (5000, "degraded"), (5000.001, "unhealthy")],
)
async def test_status_follows_the_average_latency(service, store, each_ms, status):
    await calls_of(store, 5, each_ms=each_ms)
    report = await service.check_tool_health("search")
    assert (report.status.value, report.avg_latency_ms) == (status, pytest.approx(each_ms))


@pytest.mark.parametrize(
    ("succeeded", "failed", "each_ms", "status"),
    [(20, 0, 3000, "degraded"), (4, 1, 6000, "unhealthy"), (1, 4, 3000, "unhealthy")],
)
async def test_status_is_the_worse_of_success_rate_and_latency(service, store, succeeded, failed, each_ms, status):
    await calls_of(store, succeeded, failed, each_ms=each_ms)
    assert (await service.check_tool_health("search")).status.value == status


async def test_a_report_has_the_documented_fields_and_types(service, store):
    await calls_of(store, 3, 2, error_message="no such city", error_type="ValueError")
    report = await service.check_tool_health("search")
    assert isinstance(report, ToolHealthReport)
    for field, kind in REPORT.items():
        assert type(getattr(report, field)) is kind, field
    assert set(REPORT) <= set(report.to_dict())
    assert report.to_dict()["status"] == "unhealthy"
    assert all(isinstance(each, str) and each for each in [*report.issues, *report.recommendations])
    assert report.issues
    assert report.recommendations
    assert datetime.now(UTC) - report.checked_at < timedelta(seconds=30)


async def test_a_healthy_tool_has_no_issues(service, store):
    await calls_of(store, 10)
    report = await service.check_tool_health("search")
    assert (report.issues, report.recommendations) == ([], [])


async def test_health_counts_only_calls_of_the_period_one_hour_by_default(service, store):
    now = datetime.now(UTC)
    await store_calls(store, [call("search", "error", now - timedelta(minutes=61))] * 10)
    await calls_of(store, 5)
    assert (await service.check_tool_health("search")).status is HealthStatus.HEALTHY
    assert (await service.check_tool_health("search", period_hours=2)).total_calls == 15
    assert (await service.check_all_tools_health(2)).tool_reports[0].total_calls == 15
    assert (await service.check_all_tools_health(FUTURE_IN_HOURS)).tool_reports[0].total_calls == 5


@pytest.mark.parametrize("hours", [0, -1, float("nan"), 10**9])
async def test_a_period_out_of_range_names_the_field(service, hours):
    with pytest.raises(ValueError, match="period_hours"):
        await service.check_tool_health("search", hours)


async def test_an_empty_table_is_an_unknown_system(service):
    report = await service.check_all_tools_health()
    assert isinstance(report, SystemHealthReport)
    assert (report.status, report.tool_reports) == (HealthStatus.UNKNOWN, [])
    assert report.summary == {"healthy": 0, "degraded": 0, "unhealthy": 0, "unknown": 0}
    assert isinstance(report.checked_at, datetime)


async def test_all_tools_agree_with_each_tool_alone(service, store):
    await calls_of(store, 10, tool="good")
    await calls_of(store, 9, 1, tool="fair", error_message="bad id 7", error_type="E")
    await calls_of(store, 1, 9, tool="bad")
    await calls_of(store, 2, tool="new")
    report = await service.check_all_tools_health()
    assert report.summary == {"healthy": 1, "degraded": 1, "unhealthy": 1, "unknown": 1}
    assert [each.tool_name for each in report.tool_reports] == ["bad", "fair", "good", "new"]
    for each in report.tool_reports:
        alone = await service.check_tool_health(each.tool_name)
        assert each.model_dump(exclude={"checked_at"}) == alone.model_dump(exclude={"checked_at"})


async def test_registered_tools_without_calls_are_unknown(store):
    service = ToolHealthService(store, registered_tool_names=["search", "never"])
    await calls_of(store, 5)
    report = await service.check_all_tools_health()
    assert {each.tool_name: each.status.value for each in report.tool_reports} == {
        "search": "healthy",
        "never": "unknown",
    }
    service.set_registered_tools(["other"])
    assert [each.tool_name for each in (await service.check_all_tools_health()).tool_reports] == ["other", "search"]


async def test_record_execution_stores_what_was_given(service):
    before = datetime.now(UTC)
    metric = await service.record_execution(
        "code_search", "user-123", "error", 5000, "sess-456", "req-1", "timeout", "Search timed out", {"a": 1}
    )
    assert isinstance(metric, ToolMetric)
    (stored,) = await service._repository.get_recent_executions("code_search")
    assert stored == metric
    assert (stored.user_id, stored.status, stored.execution_time_ms) == ("user-123", "error", 5000)
    assert (stored.session_id, stored.request_id) == ("sess-456", "req-1")
    assert (stored.error_type, stored.error_message, stored.metadata) == ("timeout", "Search timed out", {"a": 1})
    assert before <= stored.recorded_at <= datetime.now(UTC)


async def test_record_execution_stores_a_success_without_duration_by_default(service):
    metric = await service.record_execution("t", "u")
    assert (metric.status, metric.execution_time_ms, metric.metadata) == ("success", 0, {})


@pytest.mark.parametrize("wrong", [{"status": "broken"}, {"execution_time_ms": -1}, {"tool_name": ""}])
async def test_record_execution_names_an_invalid_field_and_stores_nothing(service, wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        await service.record_execution(**({"tool_name": "t", "user_id": "u"} | wrong))
    assert await service._repository.get_all_tool_names() == []


@pytest.mark.parametrize(
    ("failed", "timed_out", "breaks"), [(0, 0, False), (4, 0, False), (2, 2, False), (5, 0, True), (3, 2, True)]
)
async def test_five_errors_within_five_minutes_break_the_circuit(service, store, failed, timed_out, breaks):
    await calls_of(store, 100, failed, timed_out)
    assert await service.should_circuit_break("search") is breaks


async def test_only_errors_of_the_window_and_of_the_tool_break_the_circuit(service, store):
    now = datetime.now(UTC)
    await store_calls(store, [call("search", "error", now - timedelta(minutes=6))] * 9)
    await calls_of(store, failed=4)
    await calls_of(store, failed=9, tool="other")
    await store_calls(store, [call("search", "rejected")] * 9)
    assert await service.should_circuit_break("search") is False
    assert await service.should_circuit_break("search", error_threshold=4) is True
    assert await service.should_circuit_break("search", window_minutes=7) is True
    assert await service.should_circuit_break("nobody") is False


@pytest.mark.parametrize(("threshold", "window"), [(0, 5), (5, 0), (-1, 5)])
async def test_a_threshold_or_window_that_is_not_positive_is_refused(service, threshold, window):
    with pytest.raises(ValueError, match="must be positive"):
        await service.should_circuit_break("search", threshold, window)


async def test_error_patterns_count_by_type_most_frequent_first(service, store):
    await calls_of(store, 3, failed=3, error_type="validation", error_message="bad")
    await calls_of(store, timed_out=5, error_type="timeout", error_message="late")
    patterns = await service.get_error_patterns("search")
    assert (patterns["tool_name"], patterns["total_errors"]) == ("search", 8)
    assert [(each["error_type"], each["count"]) for each in patterns["patterns"]] == [("timeout", 5), ("validation", 3)]
    assert sorted(patterns["recent_messages"]) == ["bad"] * 3 + ["late"] * 5


async def test_the_limit_of_error_patterns_bounds_the_lists_and_not_the_count(service, store):
    await store_calls(
        store, [call("search", "error", error_type=f"E{n}", error_message=f"word{'x' * n}") for n in range(25)]
    )
    patterns = await service.get_error_patterns("search")
    assert patterns["total_errors"] == 25
    assert [len(patterns[key]) for key in ("patterns", "recent_messages", "templates")] == [20, 20, 20]
    assert len((await service.get_error_patterns("search", limit=3))["patterns"]) == 3


async def test_a_tool_without_errors_has_no_patterns(service):
    assert await service.get_error_patterns("nobody") == {
        "tool_name": "nobody",
        "total_errors": 0,
        "patterns": [],
        "recent_messages": [],
        "templates": [],
    }


async def test_the_dashboard_has_the_documented_keys(service, store):
    await calls_of(store, 10, tool="good")
    await calls_of(store, 10, tool="heavy", each_ms=8000)
    await calls_of(store, 9, 1, tool="fair")
    dashboard = await service.get_dashboard_summary()
    assert set(dashboard) == {"overall_status", "summary", "tools_needing_attention", "slow_executions", "checked_at"}
    assert dashboard["overall_status"] == "degraded"
    assert dashboard["summary"] == {"healthy": 1, "degraded": 1, "unhealthy": 1, "unknown": 0}
    assert [each["tool_name"] for each in dashboard["tools_needing_attention"]] == ["heavy", "fair"]
    assert {"tool_name", "status", "issues"} <= set(dashboard["tools_needing_attention"][0])
    assert len(dashboard["slow_executions"]) == 10
    slowest = dashboard["slow_executions"][0]
    assert (slowest["tool_name"], slowest["execution_time_ms"]) == ("heavy", 8000)
    assert datetime.fromisoformat(dashboard["checked_at"]).tzinfo is not None


async def test_the_health_summary_names_every_tool(service, store):
    await calls_of(store, 5)
    summary = await service.get_health_summary()
    assert (summary["overall_status"], summary["total_tools"], summary["healthy"]) == ("healthy", 1, 1)
    assert summary["tools"] == [
        {
            "tool_name": "search",
            "status": "healthy",
            "success_rate": 1.0,
            "avg_latency_ms": 100.0,
            "total_calls": 5,
            "recent_errors": 0,
            "caller_errors": 0,
            "cancelled_calls": 0,
        }
    ]


async def test_a_tools_health_has_the_documented_keys_and_types(service, store):
    now = datetime.now(UTC)
    await store_calls(
        store,
        [
            *[call("search", at=now - timedelta(minutes=n), execution_time_ms=100) for n in range(1, 96)],
            call("search", "timeout", now - timedelta(minutes=2), execution_time_ms=100),
            *[call("search", "error", now - timedelta(minutes=9), error_message="old", execution_time_ms=100)] * 3,
            call("search", "error", now, error_message="newest", execution_time_ms=200),
            call("search", "rejected"),
        ],
    )
    health = await service.get_tool_health("search")
    assert health == {
        "status": "healthy",
        "total_calls": 100,
        "successful_calls": 95,
        "failed_calls": 5,
        "success_rate": 0.95,
        "avg_latency_ms": 101.0,
        "last_success": now - timedelta(minutes=1),
        "last_failure": now,
        "last_error": "newest",
        "caller_errors": 0,
        "cancelled_calls": 0,
    }


async def test_a_tool_neither_called_nor_registered_has_no_health(service):
    assert await service.get_tool_health("nobody") is None
    service.set_registered_tools(["nobody"])
    health = await service.get_tool_health("nobody")
    assert health is not None
    assert (health["status"], health["total_calls"], health["last_success"], health["last_error"]) == (
        "unknown",
        0,
        None,
        None,
    )
