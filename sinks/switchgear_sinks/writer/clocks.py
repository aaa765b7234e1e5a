"""Bound the times of calls by the broker's clock. All answers depend on the record alone, so a replay makes the same rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from switchgear_schemas.enums import EARLIEST, LATEST
from switchgear_schemas.records import AHEAD_S, LATEST_MS

EARLIEST_MS: Final = int(EARLIEST.timestamp() * 1000)
_TOLERANCE: Final = timedelta(seconds=AHEAD_S)
_MOST_TEXT: Final = 64


class StoredTime(NamedTuple):
    """The time of a call, as it is stored."""

    at: datetime
    sent_as: str = ""
    """What the emitter sent, if that is ahead of the broker's clock, or has no time zone and is wrong. Else empty."""
    wrong: str = ""
    """``ahead`` or ``no_zone``: why its emitter's clock is wrong. Empty if nothing shows that it is."""


def is_brokers(stamp_ms: int) -> bool:
    """Return whether a record's timestamp can be the broker's time."""
    return EARLIEST_MS <= stamp_ms < LATEST_MS


def latest_time(stamp_ms: int) -> datetime:
    """Return the first time that is too far ahead of a record's timestamp. A timestamp that can't be a broker's bounds nothing."""
    return min(_instant(stamp_ms) + _TOLERANCE, LATEST) if is_brokers(stamp_ms) else LATEST


def stored_time(at: datetime, text: str, stamp_ms: int, *, zoned: bool) -> StoredTime:
    """Return the time to store.

    Args:
        at: The time that was sent, in UTC. One without a zone is taken as UTC.
        text: The same, as it was sent.
        stamp_ms: The record's timestamp. A later time is stored as this one, if it is more than :data:`AHEAD_S` later.
        zoned: Whether the time was sent with a zone.
    """
    if not is_brokers(stamp_ms):
        return StoredTime(at)
    arrived = _instant(stamp_ms)
    ahead = at >= latest_time(stamp_ms)
    if not ahead and (zoned or arrived - at <= _TOLERANCE):
        return StoredTime(at)
    return StoredTime(arrived if ahead else at, text[:_MOST_TEXT], "ahead" if zoned else "no_zone")


def _instant(stamp_ms: int) -> datetime:
    return datetime.fromtimestamp(stamp_ms // 1000, UTC) + timedelta(milliseconds=stamp_ms % 1000)
