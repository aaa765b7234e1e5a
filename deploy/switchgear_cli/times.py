"""Parse durations and instants: 90s, 10m, 2h, 1d, 1h30m; 2026-11-21T10:00:00Z."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.times import duration_s

LONGEST: Final = timedelta(days=365)


def parse_duration(text: str, option: str = "--for") -> timedelta:
    """Return ``text`` as a duration. ``option`` is where it was written, for the error.

    Raises:
        WrongUsageError: It is not a duration, or not between 0 and a year.
    """
    found = _span(text)
    if found is None:
        raise WrongUsageError(
            f"{text!r} is not a duration.", hint="Write a number with s, m, h or d: 90s, 10m, 2h, 1d, 1h30m."
        )
    if not timedelta() < found <= LONGEST:
        raise WrongUsageError(
            f"{text} is not between 0 and {LONGEST.days} days.", hint=f"Leave {option} out for no end at all."
        )
    return found


def parse_instant(option: str, text: str | None, now: datetime) -> datetime | None:
    """Return ``text`` as an instant: a date and time (UTC if it has no offset), or a duration before ``now``.

    Args:
        option: The option's name, for the error.
        text: The text. None is returned as None.
        now: The instant that a duration counts back from.

    Raises:
        WrongUsageError: It is neither.
    """
    if text is None:
        return None
    span = _span(text.strip())
    try:
        at = datetime.fromisoformat(text.strip()) if span is None else now - span
    except (ValueError, OverflowError):
        raise WrongUsageError(
            f"{option} {text!r} is neither a duration nor a date and time.",
            hint=f"Write e.g. {option} 2h, {option} 7d or {option} 2026-11-21T10:00:00Z.",
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _span(text: str) -> timedelta | None:
    found = duration_s(text)
    try:
        return None if found is None else timedelta(seconds=found)
    except OverflowError:
        return None
