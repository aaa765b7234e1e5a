"""Recorded calls of a tool that is down at known times, for the tests of the search for policies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from switchgear_cli.tune.calls import CallLog, PastCall
from switchgear_cli.tune.outages import Outage
from switchgear_schemas.wire import Execution

START = 1_772_366_400.0
"""2026-03-01 12:00:00."""
OUTAGES = ((600.0, 700.0), (1500.0, 1620.0), (2400.0, 2500.0), (3200.0, 3300.0))
"""Seconds from START: two in each half of an hour and a bit."""


def made(second: float, status: str = "success", ms: float = 100.0, tool: str = "search", **fields: Any) -> PastCall:
    """Return a call that ended so many seconds after START."""
    return PastCall(Execution(tool_name=tool, status=status, execution_time_ms=ms, **fields), START + second)


def recorded(
    outages: Iterable[Sequence[float]] = OUTAGES,
    *,
    seconds: int = 4000,
    per_second: int = 2,
    failing: float = 0.9,
    usually: float = 0.01,
    slow_ms: float | None = None,
    tool: str = "search",
    seed: int = 1,
) -> list[PastCall]:
    """Return calls of a tool that fails, or is slow, within the outages. The same arguments give the same calls.

    Args:
        outages: Begin and end of each, in seconds from START.
        seconds: Length of the history.
        per_second: Calls per second.
        failing: Bad share within the outages.
        usually: Failed share outside of them.
        slow_ms: Duration of a bad call that succeeds. None: bad calls fail.
        tool: Name of the tool.
        seed: Of the random numbers.
    """
    random = Random(seed)
    spans = list(outages)
    calls = []
    for place in range(seconds * per_second):
        second = place / per_second
        down = any(start <= second < end for start, end in spans)
        ms = 80 + 40 * random.random()
        bad = random.random() < (failing if down else usually)
        if bad and slow_ms is not None and down:
            calls.append(made(second, ms=slow_ms, tool=tool))
        elif bad and slow_ms is None:
            calls.append(made(second, "error", 500.0, tool, error_class="server", input_tokens=1000))
        else:
            calls.append(made(second, ms=ms, tool=tool, input_tokens=1000))
    return calls


def logged(calls: Iterable[PastCall]) -> CallLog:
    """Return calls as a history."""
    return CallLog(sorted(calls, key=lambda call: call.ended_at))


def outage(start: float, end: float, tool: str = "search") -> Outage:
    """Return an outage, in seconds from START."""
    return Outage(tool, START + start, START + end)


def written(calls: Iterable[PastCall], path: Path) -> Path:
    """Write calls as JSON lines."""
    lines = []
    for call in calls:
        event = call.event
        values = {"tool_name": event.tool_name, "status": event.status, "execution_time_ms": event.execution_time_ms}
        more = {"error_class": event.error_class, "input_tokens": event.input_tokens}
        at = datetime.fromtimestamp(call.ended_at, UTC).isoformat()
        lines.append(json.dumps({**values, **{k: v for k, v in more.items() if v is not None}, "recorded_at": at}))
    path.write_text("\n".join(lines) + "\n")
    return path
