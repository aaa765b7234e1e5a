"""Edges of the reference documents: an empty table, an unknown tool, a period in the future, and the documented examples."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks import (
    HealthStatus,
    SystemHealthReport,
    ToolHealthReport,
    ToolHealthService,
    ToolMetric,
    ToolMetricsRepository,
)
from tests.support.engine import call, store_calls

METRIC = {
    "metric_id": str, "tool_name": str, "user_id": str, "session_id": str, "request_id": str, "status": str,
    "execution_time_ms": float, "error_type": str, "error_message": str, "parameters_hash": str, "input_size": int,
    "output_size": int, "metadata": dict, "recorded_at": str,
}  # fmt: skip
FUTURE = datetime.now(UTC) + timedelta(days=365)
ZEROS = {"healthy": 0, "degraded": 0, "unhealthy": 0, "unknown": 0}


@pytest.fixture
def repository(store) -> ToolMetricsRepository:
    return ToolMetricsRepository(store)


@pytest.fixture
def service(store) -> ToolHealthService:
    return ToolHealthService(store)


async def test_every_read_of_an_empty_table_answers_with_nothing(repository):
    assert await repository.get_all_tool_names() == []
    assert await repository.get_known_tool_names() == []
    assert await repository.get_recent_errors() == []
    assert await repository.get_slow_executions() == []
    assert await repository.get_recent_executions("t") == []
    assert await repository.get_all_tool_stats() == {}
    assert await repository.cleanup_old_metrics() == 0


async def test_every_report_on_an_empty_table_answers_with_unknown(service):
    report = await service.check_tool_health("t")
    assert (report.status, report.total_calls, report.success_rate, report.recent_errors) == (
        HealthStatus.UNKNOWN, 0, 0.0, 0,
    )  # fmt: skip
    assert (await service.check_all_tools_health()).summary == ZEROS
    dashboard = await service.get_dashboard_summary()
    assert (dashboard["overall_status"], dashboard["summary"]) == ("unknown", ZEROS)
    assert (dashboard["tools_needing_attention"], dashboard["slow_executions"]) == ([], [])
    summary = await service.get_health_summary()
    assert (summary["overall_status"], summary["total_tools"], summary["tools"]) == ("unknown", 0, [])
    assert await service.get_tool_health("t") is None
    assert await service.should_circuit_break("t") is False
    assert (await service.get_error_patterns("t"))["total_errors"] == 0


async def test_an_unknown_tool_beside_known_ones_is_unknown_and_no_error(service, repository, store):
    await store_calls(store, [call("known", "error")] * 9)
    assert (await service.check_tool_health("nobody")).status is HealthStatus.UNKNOWN
    assert (await repository.get_tool_stats("nobody"))["total_calls"] == 0
    assert await repository.get_recent_errors("nobody") == []
    assert await repository.get_recent_executions("nobody") == []
    assert await service.get_tool_health("nobody") is None
    assert await service.should_circuit_break("nobody") is False
    assert (await service.get_error_patterns("nobody"))["patterns"] == []


async def test_period_in_the_future_has_no_calls(repository, store):
    await store_calls(store, [call("t", execution_time_ms=9000)] * 9)
    stats = await repository.get_tool_stats("t", since=FUTURE)
    assert (stats["total_calls"], stats["success_rate"], stats["avg_time_ms"]) == (0, 0.0, 0.0)
    assert stats["period"] == {"since": FUTURE.isoformat(), "until": None}
    assert await repository.get_all_tool_stats(FUTURE) == {}
    assert await repository.get_all_tool_stats(FUTURE.replace(second=0, microsecond=0)) == {}
    assert await repository.get_slow_executions(since=FUTURE) == []
    upside_down = await repository.get_tool_stats("t", since=FUTURE, until=FUTURE - timedelta(days=400))
    assert upside_down["total_calls"] == 0


@pytest.mark.parametrize(("refused", "made", "status"), [(9, 4, "unknown"), (9, 5, "healthy"), (0, 5, "healthy")])
async def test_rejected_calls_do_not_count_for_the_five_needed_calls(service, store, refused, made, status):
    await store_calls(store, [*[call("t", "rejected")] * refused, *[call("t")] * made])
    assert (await service.check_tool_health("t")).status.value == status


@pytest.mark.parametrize("calls", [4, 5])
@pytest.mark.parametrize("status", ["success", "error", "timeout"])
async def test_four_calls_are_unknown_and_five_are_assessed(service, store, calls, status):
    await store_calls(store, [call("t", status)] * calls)
    verdict = "unknown" if calls < 5 else "healthy" if status == "success" else "unhealthy"
    (report,) = (await service.check_all_tools_health()).tool_reports
    assert (report.status.value, report.total_calls) == (verdict, calls)


@pytest.mark.parametrize(
    ("good", "bad", "each_ms", "status"),
    [
        (19, 1, 2000, "healthy"),  # 0.95 and 2000 ms: both still healthy
        (19, 1, 2000.5, "degraded"),
        (94, 6, 2000, "degraded"),
        (4, 1, 5000, "degraded"),  # 0.80 and 5000 ms: both still degraded
        (4, 1, 5000.5, "unhealthy"),
        (79, 21, 5000, "unhealthy"),
    ],
)
async def test_report_of_all_tools_applies_both_thresholds(service, store, good, bad, each_ms, status):
    await store_calls(
        store, [call("t", outcome, execution_time_ms=each_ms) for outcome in ["success"] * good + ["error"] * bad]
    )
    alone, (among_all,) = await service.check_tool_health("t"), (await service.check_all_tools_health()).tool_reports
    assert alone.status.value == among_all.status.value == status


def test_a_metric_has_the_documented_fields_and_comes_back_from_its_dictionary():
    metric = ToolMetric.from_dict(
        {
            "tool_name": "code_search", "user_id": "user-123", "status": "error", "execution_time_ms": 5000,
            "session_id": "s", "request_id": "r", "error_type": "timeout", "error_message": "late",
            "parameters_hash": "h", "input_size": 1, "output_size": 2, "metadata": {"a": 1},
        }
    )  # fmt: skip
    values = metric.to_dict()
    for name, kind in METRIC.items():
        assert isinstance(values[name], kind) or (kind is float and isinstance(values[name], int)), name
    assert json.loads(json.dumps(values)) == values
    assert ToolMetric.from_dict(values) == metric


async def test_the_documented_examples_do_what_they_say(service):
    ok = await service.record_execution(
        tool_name="code_search", user_id="user-123", status="success", execution_time_ms=150, session_id="sess-456"
    )
    failed = await service.record_execution(
        tool_name="code_search", user_id="user-123", status="error", execution_time_ms=5000, error_type="timeout",
        error_message="Search timed out after 5000ms",
    )  # fmt: skip
    assert ok.metric_id != failed.metric_id
    report = await service.check_tool_health("code_search")
    assert isinstance(report, ToolHealthReport)
    assert f"{report.success_rate:.1%}" == "50.0%"
    everything = await service.check_all_tools_health()
    assert isinstance(everything, SystemHealthReport)
    assert sum(everything.summary.values()) == 1
    assert json.loads(json.dumps(everything.to_dict()))["summary"] == everything.summary
    assert await service.should_circuit_break("code_search") is False
    (pattern,) = (await service.get_error_patterns("code_search"))["patterns"]
    assert (pattern["error_type"], pattern["count"]) == ("timeout", 1)


async def test_a_tools_health_has_the_documented_types(service, store):
    await store_calls(store, [*[call("t")] * 4, call("t", "error", error_message="no")])
    health = await service.get_tool_health("t")
    assert {name: type(value) for name, value in health.items()} == {
        "status": str, "total_calls": int, "successful_calls": int, "failed_calls": int, "success_rate": float,
        "avg_latency_ms": float, "last_success": datetime, "last_failure": datetime, "last_error": str,
        "caller_errors": int, "cancelled_calls": int,
    }  # fmt: skip
