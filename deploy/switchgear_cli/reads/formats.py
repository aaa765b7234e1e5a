"""How values read in a table: numbers, durations, times, text from strangers."""

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
    """12345 as ``12,345``."""
    return f"{int(value):,}"


def share(value: float) -> str:
    """0.98765 as ``98.8 %``; 100 % is said of nothing less."""
    tenths = int(value * 1000 + 1e-9) if value > 0.999 else round(value * 1000)  # 0.9996 is not all of them
    return "100 %" if tenths == 1000 else f"{tenths / 10:.1f} %"


def duration(milliseconds: float) -> str:
    """``0.4 ms``, ``150 ms``, ``1.25 s``, ``95 s``, ``12 min``."""
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms" if milliseconds else "0 ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    return f"{seconds:.0f} s" if seconds < 119.5 else f"{seconds / 60:.0f} min"


def ago(moment: str | None, now: str | None) -> str:
    """How long before ``now``: ``12 s ago``, ``5 min ago``, ``3 h ago``, ``2 d ago``; both RFC 3339."""
    if moment is None:
        return NOTHING
    seconds = (_time(now) - _time(moment)).total_seconds()
    if seconds < 0:
        return f"in {_span(-seconds)}"
    return f"{_span(seconds)} ago"


def clock(moment: str | None) -> str:
    """``2026-11-21 22:39:16``, in UTC."""
    return NOTHING if moment is None else f"{_time(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def moment(value: str | None, now: str | None = None) -> Moment:
    """Return ``value`` relative to ``now`` and in UTC: ``22:39:16Z`` on the same day, ``2026-11-21 22:39:16Z`` on another."""
    if value is None:
        return Moment(NOTHING)
    at = _time(value).astimezone(UTC)
    same_day = at.date() == _time(now).astimezone(UTC).date()
    return Moment(ago(value, now), f"{at:%H:%M:%SZ}" if same_day else f"{at:%Y-%m-%d %H:%M:%SZ}")


def state(name: str | None) -> Text:
    """A state or status in its colour."""
    return Text(NOTHING if name is None else name.replace("_", " "), style=STATE_STYLES.get(name or "", ""))


def plain(value: Any) -> str:
    """A stranger's sentence on one line: what a terminal would obey, and what can't be seen, is escaped."""
    return "" if value is None else visible.sentence(str(value))


def named(value: Any) -> str:
    """A stranger's name on one line: two that differ look different."""
    return "" if value is None else visible.name(str(value))


def _span(seconds: float) -> str:
    for size, unit, most in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        if seconds / size < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def _time(moment: str | None) -> datetime:
    return datetime.now(UTC) if moment is None else datetime.fromisoformat(moment)
