"""Durations in the alerts file: ``90s``, ``5m``, ``1h30m``."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from switchgear_schemas.times import duration_s

_LONGEST_S: Final = 30 * 86_400


def seconds(value: object) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: It is not a duration.
    """
    if isinstance(value, str) and (found := duration_s(value.strip())) is not None:
        return found
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0:
        return 0.0
    raise ValueError('must be a duration with its unit, such as "90s", "5m" or "1h30m"')


def in_words(duration_s: float) -> str:
    """Return ``45 s``, ``12 min``, ``3 h 5 min`` or ``2 d 4 h``."""
    whole = round(duration_s)
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


Duration = Annotated[float, BeforeValidator(seconds), Field(ge=0, le=_LONGEST_S)]
"""Seconds in the program, text with a unit in the file."""
