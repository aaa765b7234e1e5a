"""Durations and instants as people and records write them: ``1h30m``, ``2026-11-26T10:32:05.120Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?) ?(ms|s|min|m|h|d)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")


def duration_s(text: str) -> float | None:
    """Return a duration such as ``90s``, ``10 min``, ``250ms`` or ``1h30m`` in seconds. None if the text isn't one."""
    if _WHOLE.fullmatch(text) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def rfc3339(at_s: float) -> str:
    """Return an instant, in seconds since 1970, as RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
