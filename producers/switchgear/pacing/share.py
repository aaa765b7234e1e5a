"""A process's share of a limit, and the calls that it may make by it. No process asks another one.

A record says how many calls all processes asked for in some seconds. Each process knows how many of them it reported itself.
So the shares add up to what is granted, whoever calls.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

FLOOR: Final = 0.04
"""The least share, of an equal one: a process that wants to call and hasn't been seen must be able to."""
CREDIT: Final = 0.03
"""Share of a period's calls that a process may make at once after it made none."""
LITTLE: Final = 0.5
"""A limit is used little if the processes ask for less than this share of it."""
_ROUNDING: Final = 1e-9
"""Of a call, which sums of many parts are off by."""


def share_of(granted: float, asked: float, own: float, processes: int) -> float:
    """Return the calls a second that a process may make.

    Args:
        granted: Calls a second that all may make.
        asked: Calls a second that all asked for.
        own: Those of them that this process asked for.
        processes: How many are active, with this one.

    The shares of all add up to ``granted``, and to 4 % more with those of processes that asked for nothing.
    """
    own = min(own, asked)
    equal = granted / max(1, processes)
    # Each gets what it asked for and an equal part of the rest, or, if there is too little, a part like its demand.
    found = own + (granted - asked) / max(1, processes) if asked < granted else granted * own / asked
    return min(granted, max(found, FLOOR * equal))


def credit_of(granted: float, asked: float, processes: int, share: float, period_s: float, *, recent: bool) -> float:
    """Return how many calls a process may have left over, to make them at once.

    Args:
        granted: Calls a second that all may make.
        asked: Calls a second that all asked for.
        processes: How many are active.
        share: Calls a second that this process may make.
        period_s: Seconds in which the rate is kept.
        recent: Whether it asked for a call lately. Its share may be less than one call a minute, and it must come to one.
    """
    each = 1.0
    if not recent and asked >= LITTLE * granted:
        each = min(1.0, CREDIT * granted * period_s / max(1, processes))
    return each + CREDIT * share * period_s


class Bucket:
    """Calls by their turn: the generic cell rate algorithm, with a rate that changes. Not thread-safe.

    A call takes a place in the queue, and goes when the rate has come that far. ``now`` is in seconds, of any clock that doesn't go back.
    """

    __slots__ = ("accrued", "at", "credit", "gone", "last", "queue", "rate", "resumes")

    def __init__(self, now: float, rate: float, credit: float) -> None:
        self.at = now
        self.rate = rate
        """Calls a second."""
        self.credit = credit
        """Calls that may be left over."""
        self.resumes = 0.0
        """Until then the rate is 0."""
        self.accrued = credit
        """How many calls may have gone."""
        self.gone = 0
        """How many have."""
        self.last = 0
        """The last place that was taken."""
        self.queue: list[int] = []
        """The places of the calls that wait."""

    def set_rate(self, now: float, rate: float, credit: float, resumes: float) -> None:
        """Go on at another rate."""
        self.advance(now)
        self.rate, self.credit, self.resumes = rate, credit, resumes

    def advance(self, now: float) -> None:
        """Bring it to ``now``."""
        elapsed = now - max(self.at, min(self.resumes, now))
        self.at = max(self.at, now)
        if elapsed > 0:
            self.accrued += self.rate * elapsed
        self.accrued = min(self.accrued, self.gone + len(self.queue) + self.credit)

    def take(self, now: float) -> int:
        """Take the last place of the queue. Return it."""
        self.advance(now)
        self.last += 1
        self.queue.append(self.last)
        return self.last

    def wait_s(self, now: float, place: int, at_once_s: float = 0.0) -> float:
        """Return the seconds until the turn of a place. If they are 0, its call goes now, or has gone.

        A wait that is not longer than ``at_once_s`` is none.
        """
        self.advance(now)
        ahead = bisect_left(self.queue, place)
        if ahead == len(self.queue) or self.queue[ahead] != place:
            return 0.0
        missing = self.gone + ahead + 1 - self.accrued
        wait_s = max(0.0, self.resumes - now) + (missing / self.rate if missing > _ROUNDING else 0.0)
        if wait_s > at_once_s:
            return wait_s
        del self.queue[ahead]
        self.gone += 1
        return 0.0

    def leave(self, place: int) -> None:
        """Give a place back whose call isn't made: those behind it move up."""
        at = bisect_left(self.queue, place)
        if at < len(self.queue) and self.queue[at] == place:
            del self.queue[at]
        else:
            self.gone -= 1
