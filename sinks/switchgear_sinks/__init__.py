"""The sink: it stores executions and circuit changes in ClickHouse, and reads them back.

The names below are imported when they are first used. ClickHouse's client takes half a second to import, and some modules, such as
the dead letters, don't need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "CircuitsRepository": "switchgear_sinks.repository",
    "HealthStatus": "switchgear_schemas.health",
    "SystemHealthReport": "switchgear_schemas.health",
    "ToolHealthReport": "switchgear_schemas.health",
    "ToolHealthService": "switchgear_sinks.health",
    "ToolMetric": "switchgear_schemas.execution",
    "ToolMetricsRepository": "switchgear_sinks.repository",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
