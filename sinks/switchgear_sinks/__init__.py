"""The sink: executions and circuit changes land in ClickHouse, and are read back from there."""

from switchgear_schemas.execution import ToolMetric
from switchgear_schemas.health import HealthStatus, SystemHealthReport, ToolHealthReport
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import CircuitsRepository, ToolMetricsRepository

__all__ = [
    "CircuitsRepository",
    "HealthStatus",
    "SystemHealthReport",
    "ToolHealthReport",
    "ToolHealthService",
    "ToolMetric",
    "ToolMetricsRepository",
]
