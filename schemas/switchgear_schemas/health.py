"""Health reports of one tool and of all tools, in the form of the reference documents."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from switchgear_schemas.circuit import CircuitState


class HealthStatus(Enum):
    """healthy: >= 95 % success and <= 2 s on average. degraded: >= 80 % and <= 5 s. unknown: fewer than 5 judged calls."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-ready values."""
        return self.model_dump(mode="json")


class ToolHealthReport(_Report):
    """Health of one tool over a period.

    The status, the success rate and the latencies come from the judged calls: ``total_calls`` without caller errors and cancelled calls.
    """

    tool_name: str
    status: HealthStatus
    success_rate: float = Field(
        ge=0, le=1, description="Share of the judged calls that succeeded. 0 without judged calls."
    )
    avg_latency_ms: float = Field(ge=0)
    total_calls: int = Field(ge=0, description="Calls made, caller errors and cancelled calls included.")
    recent_errors: int = Field(ge=0, description="Errors and timeouts that count for the tool's health.")
    issues: list[str] = Field(default_factory=list)
    recommendations: list[str] = Field(default_factory=list)
    checked_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    rejected_calls: int = Field(
        default=0, ge=0, description="Calls that its circuit refused. They aren't in total_calls."
    )
    caller_errors: int = Field(
        default=0,
        ge=0,
        description="Errors of class tool, invalid_input, auth or policy. They are not the tool's fault.",
    )
    cancelled_calls: int = Field(default=0, ge=0, description="Calls that their callers gave up.")
    p50_latency_ms: float = Field(default=0.0, ge=0)
    p95_latency_ms: float = Field(default=0.0, ge=0)
    p99_latency_ms: float = Field(default=0.0, ge=0)
    circuit_state: CircuitState | None = Field(default=None, description="Null if no circuit is known.")


class SystemHealthReport(_Report):
    """Health of all tools. ``summary`` counts the tools by status."""

    status: HealthStatus
    tool_reports: list[ToolHealthReport] = Field(default_factory=list)
    summary: dict[str, int] = Field(default_factory=dict)
    checked_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
