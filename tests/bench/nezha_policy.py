"""A latency policy learned from the calls before the first fault, by a rule that is the same for every tool.

For each tool with enough calls in those minutes:

* slow is a call that takes more than twice the 99th percentile;
* the circuit opens at a slow share of twice the worst ten seconds of those minutes, at least a tenth.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

LEARNED_FROM: Final = datetime(2022, 8, 22, 3, 52, 19, tzinfo=UTC).timestamp()
LEARNED_UNTIL: Final = datetime(2022, 8, 22, 3, 53, 50, tzinfo=UTC).timestamp()
WINDOW_S: Final = 10.0
MINIMUM_CALLS: Final = 20
TOOL_CALLS: Final = 200
"""A tool with fewer calls in the minutes to learn from has no policy. Two calls per second fill a window."""
DURATION_FACTOR: Final = 2.0
SHARE_FACTOR: Final = 2.0
LEAST_SHARE: Final = 0.1

Call = tuple[float, str, float]
"""The end of a call (seconds since 1970), its tool, and its duration in milliseconds."""


def learned(
    calls: Iterable[Call],
    *,
    duration_factor: float = DURATION_FACTOR,
    share_factor: float = SHARE_FACTOR,
    least_share: float = LEAST_SHARE,
) -> dict[str, dict[str, float]]:
    """Return the two thresholds of each tool, learned only from the calls between :data:`LEARNED_FROM` and :data:`LEARNED_UNTIL`."""
    of_tool: dict[str, list[tuple[float, float]]] = {}
    for at, tool, duration_ms in calls:
        if LEARNED_FROM <= at < LEARNED_UNTIL:
            of_tool.setdefault(tool, []).append((at, duration_ms))
    found = {}
    for tool, seen in sorted(of_tool.items()):
        if len(seen) < TOOL_CALLS:
            continue
        durations = sorted(duration for _, duration in seen)
        slow_ms = _rounded_up(duration_factor * durations[int(len(durations) * 0.99)])
        share = max(least_share, math.ceil(100 * share_factor * worst_share(seen, slow_ms)) / 100)
        if share <= 1:
            found[tool] = {"slow_call_duration_threshold_ms": slow_ms, "slow_call_rate_threshold": share}
    return found


def worst_share(seen: Iterable[tuple[float, float]], slow_ms: float) -> float:
    """Return the largest slow share of any ten seconds with enough calls."""
    window: deque[tuple[float, bool]] = deque()
    slow, worst = 0, 0.0
    for at, duration_ms in seen:
        window.append((at, duration_ms > slow_ms))
        slow += duration_ms > slow_ms
        while window[0][0] <= at - WINDOW_S:
            slow -= window.popleft()[1]
        if len(window) >= MINIMUM_CALLS:
            worst = max(worst, slow / len(window))
    return worst


def as_tables(thresholds: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the default and the tables of a policy set."""
    default = {
        "failure_rate_threshold": "off",
        "cusum": "off",
        "sliding_window_size": int(WINDOW_S),
        "minimum_number_of_calls": MINIMUM_CALLS,
    }
    return default, {tool: dict(values) for tool, values in thresholds.items()}


def as_toml(thresholds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the tables as TOML, to try with ``switchgear replay``."""
    default, tables = as_tables(thresholds)
    lines = ["[default]", *(f"{key} = {_toml(value)}" for key, value in default.items())]
    for tool, values in tables.items():
        lines += ["", f'[tools."{tool}"]', *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def _rounded_up(number: float) -> float:
    """Round to two digits."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit) * unit, 6)
