"""Judge a tool by its counted calls and its circuit: the one rule of health reports, dashboard and console. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from switchgear_schemas.enums import BROKEN
from switchgear_schemas.health import HealthStatus

SUCCESS_RATE_HEALTHY: Final = 0.95
SUCCESS_RATE_DEGRADED: Final = 0.80
LATENCY_HEALTHY_MS: Final = 2000
LATENCY_DEGRADED_MS: Final = 5000
MIN_CALLS_FOR_ASSESSMENT: Final = 5
"""Calls from which something is said of a tool."""
NOTABLE: Final = 20
"""One caller error, or cancelled call, in so many calls is worth a word."""
Kind = Literal["down", "rejects_arguments"]
_SEVERITY: Final = (HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY)


@dataclass(frozen=True, slots=True)
class Counted:
    """The calls of one tool in a period. A refused call was never made, so it is not counted.

    Args:
        calls: All that were made.
        errors: Those that failed by the tool's own fault, timeouts included.
        timeouts: Those that timed out.
        caller_errors: Those that failed by the fault of their callers.
        cancelled: Those that their callers cancelled.
        ignored: Those that succeeded, and that their callers ignore (class ``policy``).
    """

    calls: int = 0
    errors: int = 0
    timeouts: int = 0
    caller_errors: int = 0
    cancelled: int = 0
    ignored: int = 0

    @classmethod
    def of(cls, stats: Mapping[str, Any]) -> Self:
        """Return the counts of a result of ``get_tool_stats``."""
        calls, succeeded, failed, timeouts, callers, cancelled = (
            int(stats[name])
            for name in (
                "total_calls",
                "success_count",
                "error_count",
                "timeout_count",
                "caller_error_count",
                "cancelled_count",
            )
        )
        ignored = calls - succeeded - failed - timeouts - cancelled
        return cls(calls, failed + timeouts - callers, timeouts, callers, cancelled, ignored)

    @property
    def judged(self) -> int:
        """Calls that say how the tool is: the rates are of these."""
        return self.calls - self.caller_errors - self.cancelled - self.ignored

    @property
    def error_rate(self) -> float:
        """Share of the judged calls that failed; 0 without calls."""
        return self.errors / self.judged if self.judged else 0.0

    @property
    def success_rate(self) -> float:
        """Share of the judged calls that succeeded; 0 without calls."""
        return (self.judged - self.errors) / self.judged if self.judged else 0.0

    @property
    def rejects_arguments(self) -> bool:
        """Whether more calls fail by the fault of their callers than by the tool's own, and enough of them."""
        callers = self.caller_errors
        return callers >= MIN_CALLS_FOR_ASSESSMENT and callers > self.errors and self.is_notable(callers)

    def is_notable(self, some: int) -> bool:
        """Return whether some of the calls are so many that they are worth a word."""
        return NOTABLE * some >= max(1, self.calls)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of a tool.

    Args:
        status: Its health.
        by_rate: What the success rate alone says.
        by_latency: What the average latency alone says.
        kind: ``down`` if calls fail by its own fault or its circuit refuses some, ``rejects_arguments`` if more fail by the
            callers' fault. None if it works.
    """

    status: HealthStatus
    by_rate: HealthStatus
    by_latency: HealthStatus
    kind: Kind | None


def judge(counted: Counted, state: str | None, *, refuses: bool = False, average_ms: float = 0.0) -> Verdict:
    """Judge one tool by its judged calls: all but caller errors and cancelled calls.

    With fewer than five judged calls the status is unknown, or unhealthy if the circuit refuses all calls. Otherwise it is the
    worse of the success rate (>= 0.95 healthy, >= 0.80 degraded) and the average latency (<= 2000 ms healthy, <= 5000 ms
    degraded). Caller errors and cancelled calls never change the status.

    Args:
        counted: Its calls.
        state: The state of its circuit. None: there is none, or it is not known.
        refuses: Whether the circuit refuses all calls now.
        average_ms: The average duration of the judged calls, in milliseconds.
    """
    by_rate = by_latency = HealthStatus.UNKNOWN
    status = HealthStatus.UNHEALTHY if refuses else HealthStatus.UNKNOWN
    if counted.judged >= MIN_CALLS_FOR_ASSESSMENT:
        by_rate = _graded(-counted.success_rate, -SUCCESS_RATE_HEALTHY, -SUCCESS_RATE_DEGRADED)
        by_latency = _graded(average_ms, LATENCY_HEALTHY_MS, LATENCY_DEGRADED_MS)
        status = worst((by_rate, by_latency))
    down = state in BROKEN or by_rate is HealthStatus.UNHEALTHY
    kind: Kind | None = "rejects_arguments" if counted.rejects_arguments else "down" if down else None
    return Verdict(status, by_rate, by_latency, kind)


def needs_attention(counted: Counted, state: str | None, status: HealthStatus) -> bool:
    """Return whether somebody should look at a tool.

    It is not healthy, its circuit refuses calls, it rejects arguments, or half of its calls are caller errors or cancelled.
    """
    return (
        status in {HealthStatus.DEGRADED, HealthStatus.UNHEALTHY}
        or state in BROKEN
        or counted.rejects_arguments
        or (
            counted.calls >= MIN_CALLS_FOR_ASSESSMENT
            and 2 * (counted.caller_errors + counted.cancelled) >= counted.calls
        )
    )


def worst(statuses: Iterable[HealthStatus]) -> HealthStatus:
    """Return the most severe status. None of them may be unknown."""
    return max(statuses, key=_SEVERITY.index)


def system_status(statuses: Sequence[HealthStatus]) -> HealthStatus:
    """Return the status of all tools together; unknown if every tool is unknown.

    The system is unhealthy if at least half of the known tools are unhealthy, and degraded if any is not healthy. So one
    broken tool of many degrades the system: in the reference documents, 10 healthy, 2 degraded and 1 unhealthy are "degraded".
    """
    judged = [status for status in statuses if status is not HealthStatus.UNKNOWN]
    if not judged:
        return HealthStatus.UNKNOWN
    if 2 * judged.count(HealthStatus.UNHEALTHY) >= len(judged):
        return HealthStatus.UNHEALTHY
    return HealthStatus.HEALTHY if judged.count(HealthStatus.HEALTHY) == len(judged) else HealthStatus.DEGRADED


def _graded(value: float, healthy: float, degraded: float) -> HealthStatus:
    """Return the status of a value, of which less is better."""
    if value <= healthy:
        return HealthStatus.HEALTHY
    return HealthStatus.DEGRADED if value <= degraded else HealthStatus.UNHEALTHY
