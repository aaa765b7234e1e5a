"""The slowest calls: from ``tool_slow_calls``, or from all rows where a lower threshold needs them."""

# ruff: noqa: S608 - the SQL is put together of our own names only; every value is bound

from __future__ import annotations

from typing import Any, Final

from switchgear_sinks.repository.queries import CALLS, Conditions, select
from switchgear_sinks.repository.rows import COLUMNS

SLOW_MS: Final = 5000.0
"""``tool_slow_calls`` has the calls that took longer (the seeds' threshold of degraded latency)."""
_SLOWEST: Final = "ORDER BY execution_time_ms DESC, recorded_at DESC, metric_id LIMIT {limit:UInt32}"


def known_slow(conditions: Conditions, threshold_ms: float) -> tuple[str, dict[str, Any]]:
    """The SQL of the slowest calls above ``threshold_ms`` and :data:`SLOW_MS`, and its parameters but ``limit``.

    The least duration of the answer is found first, since ClickHouse skips what cannot be in a top n only where it sorts
    by one column (measured over 520,000 slow calls: 13 ms against 51).
    """
    conditions.that("execution_time_ms > {threshold:Float64}", threshold=max(float(threshold_ms), SLOW_MS))
    top = select(
        "execution_time_ms", "tool_slow_calls", conditions, "ORDER BY execution_time_ms DESC LIMIT {limit:UInt32}"
    )
    least = f"execution_time_ms >= (SELECT min(execution_time_ms) FROM ({top}))"
    return select(COLUMNS, "tool_slow_calls", conditions, f"AND {least} {_SLOWEST}"), conditions.parameters


def all_above(conditions: Conditions, threshold_ms: float) -> tuple[str, dict[str, Any]]:
    """The same from ``tool_metrics``, for a threshold below :data:`SLOW_MS` that few calls are above: it scans."""
    conditions.that("execution_time_ms > {threshold:Float64}", CALLS, threshold=float(threshold_ms))
    return select(COLUMNS, "tool_metrics", conditions, _SLOWEST), conditions.parameters
