"""What is wrong with the clock of a process that sends events: a sentence, and what to do about it.

An event that arrives late shows nothing by itself: it may have waited in a spool.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from switchgear_schemas.records import AHEAD_S

_STEADY_S: Final = 2 * AHEAD_S
"""Events of one wrong clock differ by less. Deliveries that are late for another reason differ by more."""
_ENOUGH_EVENTS: Final = 3
_ENOUGH_HOURS: Final = 2
_QUARTER_S: Final = 900
_MOST_ZONE_S: Final = 14 * 3600 + AHEAD_S
_SEND_A_ZONE: Final = "Send recorded_at with a time zone, such as 2026-11-28T12:00:00Z."
_SYNCHRONISE: Final = "Synchronise the clock of its machine, for instance by NTP."


class WrongClock(NamedTuple):
    """What is wrong."""

    text: str
    """A sentence about the process, without a capital letter and a full stop."""
    todo: str
    """What to do, as a sentence."""
    counted: bool
    """Whether circuits count its calls. Those that seem to be older than ``late_after_s`` are only stored."""


def clock_of_event(sent_s: float, now_s: float, *, zoned: bool, late_after_s: float) -> WrongClock | None:
    """Return what one event shows about the clock of its emitter. None: nothing.

    Args:
        sent_s: Its ``recorded_at``, in seconds since 1970.
        now_s: The present time, in seconds since 1970.
        zoned: Whether ``recorded_at`` had a time zone.
        late_after_s: As in the settings.
    """
    off = sent_s - now_s
    if abs(off) <= AHEAD_S or (zoned and off < 0):
        return None
    return _wrong(off, off, zoned=zoned, late_after_s=late_after_s)


def clock_of_emitter(
    *, events: int, hours: int, without_zone: int, least_s: float, most_s: float, late_after_s: float
) -> WrongClock | None:
    """Return what the wrong times of one emitter show about its clock. None: they were only delivered late.

    Args:
        events: Events whose time was more than a minute off when the broker had them.
        hours: In how many different hours they came.
        without_zone: How many of them had no time zone.
        least_s: The least of the differences, sent time minus the broker's, in seconds.
        most_s: The greatest of them.
        late_after_s: As in the settings.
    """
    if without_zone:
        return _wrong(least_s, most_s, zoned=False, late_after_s=late_after_s)
    if most_s > AHEAD_S:
        return _wrong(max(least_s, AHEAD_S), most_s, zoned=True, late_after_s=late_after_s)
    steady = most_s - least_s <= _STEADY_S and events >= _ENOUGH_EVENTS and hours >= _ENOUGH_HOURS
    return _wrong(least_s, most_s, zoned=True, late_after_s=late_after_s) if steady else None


def _wrong(least_s: float, most_s: float, *, zoned: bool, late_after_s: float) -> WrongClock:
    off = (least_s + most_s) / 2
    known = most_s - least_s <= _STEADY_S
    counted = least_s >= -late_after_s
    effect = "so no circuit counts its calls"
    if counted:
        effect = "so its calls are stored " + ("with the broker's time" if most_s > AHEAD_S else "at a wrong time")
    elif most_s > AHEAD_S:
        effect = "so circuits count only some of its calls"
    local = known and _is_zone(off)
    place = f"{_size(abs(off))} {'ahead of' if off > 0 else 'behind'}"
    if not zoned:
        size = f" and are {place} UTC" if known else ""
        text = f"its times have no time zone{size}, {effect}"
    elif local:
        text = f"its times are {place} UTC, as local times are, {effect}"
    elif known:
        text = f"its clock is {place} the broker's, {effect}"
    else:
        text = f"its clock is up to {_size(most_s)} ahead of the broker's, {effect}"
    return WrongClock(text, _SYNCHRONISE if zoned and not local else _SEND_A_ZONE, counted)


def _is_zone(off: float) -> bool:
    """Return whether times are off by whole quarters of an hour, as a local time may be."""
    quarters = round(off / _QUARTER_S)
    return quarters != 0 and abs(off) <= _MOST_ZONE_S and abs(off - quarters * _QUARTER_S) <= AHEAD_S


def _size(seconds: float) -> str:
    """Return ``90 s``, ``12 min``, ``5 h``, ``5 h 30 min`` or ``26,388 days``."""
    minutes = round(seconds / 60)
    if minutes < 3:
        return f"{round(seconds)} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{round(seconds / 86_400):,} days"
