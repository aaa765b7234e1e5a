"""Times of the day: quiet hours, and when the digest is due."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SEARCHED: Final = timedelta(days=15)
"""How far the search for the end of quiet windows goes. They repeat every week."""


def _time_of_day(value: object) -> time:
    if isinstance(value, time) and value.tzinfo is None:
        return value
    if isinstance(value, str):
        try:
            return datetime.strptime(value, "%H:%M").time()  # noqa: DTZ007 - a time of the day
        except ValueError:
            pass
    raise ValueError('must be a time of the day, such as "07:30"')


TimeOfDay = Annotated[time, BeforeValidator(_time_of_day)]


def zone(value: str) -> ZoneInfo:
    """Return a time zone by its name.

    Raises:
        ValueError: There is none of this name.
    """
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError('must be a time zone such as "UTC" or "Europe/Zurich"') from None


class QuietHours(BaseModel):
    """A window in which no incident is announced. If ``to`` is not after ``from``, it ends on the next day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    days: tuple[Day, ...] = DAYS
    start: TimeOfDay = Field(default=time(0, 0), alias="from")
    end: TimeOfDay = Field(default=time(0, 0), alias="to")

    def end_after(self, at: datetime) -> datetime | None:
        """Return when the window that contains ``at`` ends; None if ``at`` is outside. Both are local times."""
        for date in (at.date(), at.date() - timedelta(days=1)):
            if DAYS[date.weekday()] not in self.days:
                continue
            begins = datetime.combine(date, self.start, at.tzinfo)
            ends = datetime.combine(date + timedelta(days=self.end <= self.start), self.end, at.tzinfo)
            if begins <= at < ends:
                return ends
        return None


def is_quiet(quiet: tuple[QuietHours, ...], at_s: float, timezone: ZoneInfo) -> bool:
    """Return whether an instant, in seconds since 1970, is in a window."""
    at = datetime.fromtimestamp(at_s, timezone)
    return any(each.end_after(at) is not None for each in quiet)


def next_loud(quiet: tuple[QuietHours, ...], at_s: float, timezone: ZoneInfo) -> float | None:
    """Return the first instant from ``at_s`` on that is in no window, in seconds since 1970. None: there is none for weeks."""
    at = datetime.fromtimestamp(at_s, timezone)
    until = at + _SEARCHED
    while at < until:
        ends = max((end for each in quiet if (end := each.end_after(at)) is not None), default=None)
        if ends is None:
            return max(at_s, at.timestamp())
        at = ends
    return None


def last_due(at: time, now_s: float, timezone: ZoneInfo) -> float:
    """Return when it was last ``at`` o'clock, in seconds since 1970."""
    now = datetime.fromtimestamp(now_s, timezone)
    today = datetime.combine(now.date(), at, timezone)
    if today.timestamp() <= now_s:  # local times can't be compared: the clock may skip ``at`` today
        return today.timestamp()
    return datetime.combine(now.date() - timedelta(days=1), at, timezone).timestamp()
