"""Report the health of tools: the service of the reference documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from switchgear_schemas.execution import ToolMetric
from switchgear_schemas.health import HealthStatus, SystemHealthReport, ToolHealthReport
from switchgear_schemas.policy import DEFAULT_COUNTED
from switchgear_sinks.health import reports, verdict
from switchgear_sinks.health.assessment import ToolFigures
from switchgear_sinks.repository import rollups
from switchgear_sinks.repository.circuits import CircuitsRepository
from switchgear_sinks.repository.tool_errors import ToolErrorsRepository
from switchgear_sinks.repository.tool_metrics import Logger, ToolMetricsRepository


class ToolHealthService:
    """Assesses tools by their stored calls and their circuits.

    A rejected call (``status = 'rejected'``) was never made, so a tool whose circuit is open is assessed by the calls that were
    made. Caller errors and cancelled calls don't count for a tool's health. They are counted separately, and reported with
    their own recommendations. The default policy's ``counted_error_classes`` decides which errors count, whatever a tool's own
    policy says.

    Args:
        db: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a Store, with the database selected.
        repository: Reads the calls; by default one over ``db``.
        registered_tool_names: Tools that exist. Those without calls are reported as unknown.
        logger: By default ``switchgear.health``.
        seen: Returns what the reports may say of a circuit's record. None: all of it.
    """

    SUCCESS_RATE_HEALTHY: ClassVar[float] = verdict.SUCCESS_RATE_HEALTHY
    SUCCESS_RATE_DEGRADED: ClassVar[float] = verdict.SUCCESS_RATE_DEGRADED
    LATENCY_HEALTHY_MS: ClassVar[int] = verdict.LATENCY_HEALTHY_MS
    LATENCY_DEGRADED_MS: ClassVar[int] = verdict.LATENCY_DEGRADED_MS
    MIN_CALLS_FOR_ASSESSMENT: ClassVar[int] = verdict.MIN_CALLS_FOR_ASSESSMENT

    def __init__(
        self,
        db: Any,
        repository: ToolMetricsRepository | None = None,
        registered_tool_names: list[str] | None = None,
        logger: Logger | None = None,
        *,
        seen: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        self._seen = seen or (lambda circuit: circuit)
        self._logger: Logger = logger or logging.getLogger("switchgear.health")
        self._repository = repository or ToolMetricsRepository(db, self._logger)
        self._errors = ToolErrorsRepository(self._repository.database, tenant=self._repository.tenant)
        self._circuits = CircuitsRepository(self._repository.database)
        self._registered: tuple[str, ...] = tuple(registered_tool_names or ())

    async def ensure_initialized(self) -> None:
        """Create the tables, unless they exist; see :meth:`ToolMetricsRepository.ensure_table`.

        Raises:
            MigrationError: ClickHouse refuses to create them; the message has the reason.
        """
        await self._repository.ensure_table()

    async def record_execution(
        self,
        tool_name: str,
        user_id: str,
        status: str = "success",
        execution_time_ms: int = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        error_type: str | None = None,
        error_message: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> ToolMetric:
        """Store one call now, without Kafka. To count it in the fleet's circuit, emit it instead.

        Raises:
            pydantic.ValidationError: A value has the wrong type or is out of range. The error names the field.
        """
        metric = ToolMetric.model_validate(
            {
                "tool_name": tool_name,
                "user_id": user_id,
                "status": status,
                "execution_time_ms": execution_time_ms,
                "session_id": session_id,
                "request_id": request_id,
                "error_type": error_type,
                "error_message": error_message,
                "metadata": metadata or {},
            }
        )
        return await self._repository.record(metric)

    async def check_tool_health(self, tool_name: str, period_hours: float = 1) -> ToolHealthReport:
        """Assess one tool by its calls of the last hours. A tool without calls is unknown, not an error.

        The period begins on a whole minute. Percentiles over two hours or more come from histograms and are off by at most 9 %.
        """
        now = datetime.now(UTC)
        since = reports.start(now, period_hours)
        stats, types, circuits = await asyncio.gather(
            self._stats(tool_name, since, period_hours),
            self._errors.types(tool_name, since),
            self._circuits.current(now, tool_name),
        )
        circuit = self._of_tool(circuits).get(tool_name)
        return reports.report(ToolFigures(tool_name, stats, period_hours, types, circuit, now=now), now)

    async def check_all_tools_health(self, period_hours: float = 1) -> SystemHealthReport:
        """Assess every tool that has calls or is registered, with four queries on the rollups.

        The statuses are those of :meth:`check_tool_health`. The period begins on a whole minute. Percentiles are off by at
        most 9 %.
        """
        now = datetime.now(UTC)
        since = reports.start(now, period_hours)
        names, stats, types, circuits = await asyncio.gather(
            self._repository.get_known_tool_names(),
            self._repository.get_all_tool_stats(since),
            self._errors.types(None, since),
            self._circuits.current(now),
        )
        errors = reports.by_tool(types)
        states = self._of_tool(circuits)
        judged = [
            reports.report(
                ToolFigures(
                    name,
                    stats.get(name) or reports.no_calls(name, since),
                    period_hours,
                    errors.get(name, ()),
                    states.get(name),
                    now=now,
                ),
                now,
            )
            for name in sorted({*names, *stats, *self._registered})
        ]
        return reports.system(judged, now)

    def _of_tool(self, circuits: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        return {name: self._seen(circuit) for name, circuit in reports.of_tool(circuits).items()}

    async def should_circuit_break(self, tool_name: str, error_threshold: int = 5, window_minutes: int = 5) -> bool:
        """Return whether ``error_threshold`` calls failed within the last minutes: the rule of the reference documents.

        The rule is a count, not a rate, so a busy healthy tool may reach it. The fleet's circuit judges rates, and answers
        without a query.

        The answer is that of a fleet circuit with the policy ``failure_count = error_threshold``,
        ``sliding_window_size = 60 * window_minutes`` and otherwise the defaults. Failures are the classes of
        ``counted_error_classes`` (transport, timeout, server, rate_limited, unknown, and errors without a class), so a tool
        that answers "bad argument" works. There are two differences: the circuit's window has 20 panes, and may forget the
        oldest one early. And the circuit uses the broker's clock, this method the callers' clocks.

        Raises:
            ValueError: The threshold or window is not positive.
        """
        if error_threshold < 1 or window_minutes <= 0:
            raise ValueError(
                f"error_threshold and window_minutes must be positive, got {error_threshold} and {window_minutes}"
            )
        since = datetime.now(UTC) - timedelta(minutes=window_minutes)
        return await self._errors.count(tool_name, since, DEFAULT_COUNTED) >= error_threshold

    async def get_error_patterns(self, tool_name: str, limit: int = 20) -> dict[str, Any]:
        """Return all stored errors of a tool by type. ``limit`` bounds the lists, not the counts.

        Returns:
            The keys of the reference documents, and ``templates``: the messages without ids and numbers. Each has its count,
            an example, and when it was first and last seen.
        """
        types, templates, recent = await asyncio.gather(
            self._errors.types(tool_name),
            self._errors.templates(tool_name, limit),
            self._repository.get_recent_errors(tool_name, limit),
        )
        return {
            "tool_name": tool_name,
            "total_errors": sum(kind["count"] for kind in types),
            "patterns": [reports.json_times(kind) for kind in types[:limit]],
            "recent_messages": [metric.error_message for metric in recent if metric.error_message],
            "templates": [reports.json_times(each) for each in templates],
        }

    async def get_dashboard_summary(self) -> dict[str, Any]:
        """Return the last hour of all tools: their statuses, the tools that need attention, and the slowest calls."""
        report, slow = await asyncio.gather(
            self.check_all_tools_health(),
            self._repository.get_slow_executions(since=reports.start(datetime.now(UTC), 1)),
        )
        attention = [each for each in report.tool_reports if reports.needs_attention(each)]
        attention.sort(key=lambda each: (each.status is not HealthStatus.UNHEALTHY, each.success_rate, each.tool_name))
        return {
            "overall_status": report.status.value,
            "summary": report.summary,
            "tools_needing_attention": [each.to_dict() for each in attention],
            "slow_executions": [metric.to_dict() for metric in slow],
            "checked_at": report.to_dict()["checked_at"],
        }

    async def get_health_summary(self) -> dict[str, Any]:
        """Return the last hour of all tools in the shape of the gRPC service.

        Returns:
            ``overall_status``, ``total_tools``, the counts ``healthy``, ``degraded``, ``unhealthy``, ``unknown``,
            ``tools`` (a list of ``tool_name``, ``status``, ``success_rate``, ``avg_latency_ms``, ``total_calls``,
            ``recent_errors``, ``caller_errors``, ``cancelled_calls``) and ``checked_at`` (datetime).
        """
        report = await self.check_all_tools_health()
        return {
            "overall_status": report.status.value,
            "total_tools": len(report.tool_reports),
            **report.summary,
            "tools": [
                {
                    "tool_name": each.tool_name,
                    "status": each.status.value,
                    "success_rate": each.success_rate,
                    "avg_latency_ms": each.avg_latency_ms,
                    "total_calls": each.total_calls,
                    "recent_errors": each.recent_errors,
                    "caller_errors": each.caller_errors,
                    "cancelled_calls": each.cancelled_calls,
                }
                for each in report.tool_reports
            ],
            "checked_at": report.checked_at,
        }

    async def get_tool_health(self, tool_name: str) -> dict[str, Any] | None:
        """Return the last 24 hours of a tool in the shape of the gRPC service; None if it was neither called nor registered.

        ``last_success``, ``last_failure`` and ``last_error`` cover everything stored. Caller errors and cancelled calls are
        neither successes nor failures.
        """
        report, last = await asyncio.gather(
            self.check_tool_health(tool_name, 24), self._repository.get_last_calls(tool_name)
        )
        if not last["stored"] and tool_name not in self._registered:
            return None
        return {
            "status": report.status.value,
            "total_calls": report.total_calls,
            "successful_calls": report.total_calls
            - report.recent_errors
            - report.caller_errors
            - report.cancelled_calls,
            "failed_calls": report.recent_errors,
            "caller_errors": report.caller_errors,
            "cancelled_calls": report.cancelled_calls,
            "success_rate": report.success_rate,
            "avg_latency_ms": report.avg_latency_ms,
            "last_success": last["last_success"],
            "last_failure": last["last_failure"],
            "last_error": last["last_error"],
        }

    async def _stats(self, tool_name: str, since: datetime, period_hours: float) -> dict[str, Any]:
        if timedelta(hours=period_hours) < rollups.LONG:
            return await self._repository.get_tool_stats(tool_name, since)
        found = await self._repository.get_all_tool_stats(since, tool_name=tool_name)
        return found.get(tool_name) or reports.no_calls(tool_name, since)

    def set_registered_tools(self, tool_names: list[str]) -> None:
        """Set the tools that exist, so that reports show those without calls as unknown."""
        self._registered = tuple(tool_names)
