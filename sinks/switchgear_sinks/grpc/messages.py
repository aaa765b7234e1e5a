"""From the health service's dictionaries to protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from switchgear_sinks.grpc import tool_health_pb2 as pb

_STATUS: Final = {
    "healthy": pb.HEALTH_STATUS_HEALTHY,
    "degraded": pb.HEALTH_STATUS_DEGRADED,
    "unhealthy": pb.HEALTH_STATUS_UNHEALTHY,
    "unknown": pb.HEALTH_STATUS_UNKNOWN,
}


def status_of(name: str) -> pb.HealthStatus:
    """``healthy`` as the enum's value."""
    return _STATUS[name]


def health_summary(summary: Mapping[str, Any]) -> pb.HealthSummary:
    """Of ``get_health_summary``."""
    return pb.HealthSummary(
        overall_status=status_of(summary["overall_status"]),
        total_tools=summary["total_tools"],
        **{name: summary[name] for name in ("healthy", "degraded", "unhealthy", "unknown")},
        tools=[pb.ToolSummary(**{**tool, "status": status_of(tool["status"])}) for tool in summary["tools"]],
        checked_at=timestamp(summary["checked_at"]),
    )


def tool_health(health: Mapping[str, Any]) -> pb.ToolHealthInfo:
    """Of ``get_tool_health``; what is None stays absent."""
    times = {"last_success", "last_failure"}
    given: dict[str, Any] = {name: value for name, value in health.items() if value is not None}
    given |= {name: timestamp(given[name]) for name in times & given.keys()}
    return pb.ToolHealthInfo(**{**given, "status": status_of(health["status"])})


def timestamp(moment: datetime) -> Timestamp:
    """To the microsecond."""
    made = Timestamp()
    made.FromDatetime(moment)
    return made
