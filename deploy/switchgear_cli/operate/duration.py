"""Durations as people write them: 90s, 10m, 2h, 1d, 1h30m."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from switchgear_cli.usage import WrongUsageError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
LONGEST: Final = timedelta(days=365)


def parse_duration(text: str) -> timedelta:
    """``text`` as a duration.

    Raises:
        WrongUsageError: it is none, or nothing, or more than a year.
    """
    if _WHOLE.fullmatch(text) is None:
        raise WrongUsageError(
            f"{text!r} is no duration.", hint="Write a number with s, m, h or d: 90s, 10m, 2h, 1d, 1h30m."
        )
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if not 0 < seconds <= LONGEST.total_seconds():
        raise WrongUsageError(
            f"{text} is not between 0 and {LONGEST.days} days.", hint="Leave --for out for no end at all."
        )
    return timedelta(seconds=seconds)
