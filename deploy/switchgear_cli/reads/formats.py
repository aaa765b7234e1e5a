"""Format values for tables: numbers, durations, times, and text from other producers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from switchgear_cli.reads.responsive_table import Moment
from switchgear_schemas import visible

STATE_STYLES: Final = {
    "closed": "green",
    "healthy": "green",
    "success": "green",
    "half_open": "yellow",
    "degraded": "yellow",
    "timeout": "yellow",
    "metrics_only": "cyan",
    "disabled": "cyan",
    "open": "bold red",
    "forced_open": "bold red",
    "unhealthy": "bold red",
    "error": "red",
    "unknown": "dim",
    "cancelled": "dim",
    "rejected": "dim",
}
NOTHING: Final = "-"


def count(value: float) -> str:
    """Return 12345 as ``12,345``."""
    return f"{int(value):,}"


def share(value: float) -> str:
    """Return 0.98765 as ``98.8 %``. Only 1 is ``100 %``."""
    tenths = int(value * 1000 + 1e-9) if value > 0.999 else round(value * 1000)  # 0.9996 must not read as 100 %
    return "100 %" if tenths == 1000 else f"{tenths / 10:.1f} %"


def duration(milliseconds: float) -> str:
    """Return ``0.4 ms``, ``150 ms``, ``1.25 s``, ``95 s`` or ``12 min``."""
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms" if milliseconds else "0 ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    return f"{seconds:.0f} s" if seconds < 119.5 else f"{seconds / 60:.0f} min"


def ago(moment: str | None, now: str | None) -> str:
    """Return how long before ``now`` it was.

    ``12 s ago``, ``5 min ago``, ``3 h ago``, ``2 d ago``. Both are RFC 3339.
    """
    if moment is None:
        return NOTHING
    seconds = (_time(now) - _time(moment)).total_seconds()
    if seconds < 0:
        return f"in {_span(-seconds)}"
    return f"{_span(seconds)} ago"


def clock(moment: str | None) -> str:
    """Return ``2026-11-21 22:39:16``, in UTC."""
    return NOTHING if moment is None else f"{_time(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def moment(value: str | None, now: str | None = None) -> Moment:
    """Return ``value`` relative to ``now`` and in UTC: ``22:39:16Z`` on the same day, ``2026-11-21 22:39:16Z`` on another."""
    if value is None:
        return Moment(NOTHING)
    at = _time(value).astimezone(UTC)
    same_day = at.date() == _time(now).astimezone(UTC).date()
    return Moment(ago(value, now), f"{at:%H:%M:%SZ}" if same_day else f"{at:%Y-%m-%d %H:%M:%SZ}")


def state(name: str | None) -> Text:
    """Return a state or status in its colour."""
    return Text(NOTHING if name is None else name.replace("_", " "), style=STATE_STYLES.get(name or "", ""))


def plain(value: Any) -> str:
    """Return a foreign sentence on one line. Control and invisible characters are escaped."""
    return "" if value is None else visible.sentence(str(value))


def named(value: Any) -> str:
    """Return a foreign name on one line. Two names that differ look different."""
    return "" if value is None else visible.name(str(value))


def _span(seconds: float) -> str:
    for size, unit, most in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        if seconds / size < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def _time(moment: str | None) -> datetime:
    return datetime.now(UTC) if moment is None else datetime.fromisoformat(moment)
