"""Build reports in the shapes of the reference documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from switchgear_schemas.health import HealthStatus, SystemHealthReport, ToolHealthReport
from switchgear_sinks.health import verdict
from switchgear_sinks.health.assessment import ToolFigures, assess
from switchgear_sinks.health.verdict import Counted, system_status


def report(figures: ToolFigures, now: datetime) -> ToolHealthReport:
    """Return the report on one tool."""
    assessed, stats, circuit = assess(figures), figures.stats, figures.circuit
    return ToolHealthReport(
        tool_name=figures.tool_name,
        status=assessed.status,
        success_rate=stats["success_rate"],
        avg_latency_ms=stats["avg_time_ms"],
        total_calls=stats["total_calls"],
        recent_errors=figures.counted.errors,
        issues=assessed.issues,
        recommendations=assessed.recommendations,
        checked_at=now,
        rejected_calls=stats["rejected_count"],
        caller_errors=stats["caller_error_count"],
        cancelled_calls=stats["cancelled_count"],
        p50_latency_ms=stats["p50_time_ms"],
        p95_latency_ms=stats["p95_time_ms"],
        p99_latency_ms=stats["p99_time_ms"],
        circuit_state=None if circuit is None else circuit["state"],
    )


def system(judged: list[ToolHealthReport], now: datetime) -> SystemHealthReport:
    """Return the report on a system of these tools."""
    statuses = [each.status for each in judged]
    return SystemHealthReport(
        status=system_status(statuses), tool_reports=judged, summary=summary(statuses), checked_at=now
    )


def needs_attention(report: ToolHealthReport) -> bool:
    """Return whether somebody should look at a tool; see :func:`~switchgear_sinks.health.verdict.needs_attention`."""
    counted = Counted(
        report.total_calls,
        report.recent_errors,
        caller_errors=report.caller_errors,
        cancelled=report.cancelled_calls,
    )
    return verdict.needs_attention(counted, report.circuit_state, report.status)


def summary(statuses: Iterable[HealthStatus]) -> dict[str, int]:
    """Return the number of tools by status, including zeros."""
    listed = list(statuses)
    return {status.value: listed.count(status) for status in HealthStatus}


def of_tool(circuits: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the circuits of whole tools by tool name. The circuits of users and sessions are left out."""
    return {circuit["tool_name"]: circuit for circuit in circuits if circuit["scope"] == "tool"}


def by_tool(types: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return error groups by tool, in their order."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for each in types:
        grouped.setdefault(each["tool_name"], []).append(each)
    return grouped


def no_calls(tool_name: str, since: datetime) -> dict[str, Any]:
    """Return the statistics of a tool that was not called in the period."""
    zeros = (
        "total_calls", "success_count", "error_count", "timeout_count", "rejected_count", "caller_error_count", "cancelled_count",
    )  # fmt: skip
    figures = ("success_rate", "avg_time_ms", "avg_cancelled_ms", "p50_time_ms", "p95_time_ms", "p99_time_ms")
    return (
        {"tool_name": tool_name, "period": {"since": since.isoformat(), "until": None}}
        | dict.fromkeys(zeros, 0)
        | dict.fromkeys(figures, 0.0)
    )


def start(now: datetime, period_hours: float) -> datetime:
    """Return the whole minute at or before the start of a period that ends now.

    Raises:
        ValueError: ``period_hours`` is not more than 0, or is more than ten years.
    """
    if not 0 < period_hours <= 24 * 3650:
        raise ValueError(f"period_hours must be more than 0 and at most ten years, got {period_hours}")
    return (now - timedelta(hours=period_hours)).replace(second=0, microsecond=0)


def json_times(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with times as ISO 8601 text."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
