"""One rate limit, learned from what the tool answers: its 429s, and how long it asks to wait.

While calls are refused as too many, what the tool accepted is its limit. So a cut is a measurement. Between cuts the rate grows, slowly
at first (additive increase, multiplicative decrease: Chiu and Jain 1989; the growth is convex, as in CUBIC, RFC 9438).

The functions use ``+ - * /`` and comparisons alone, so every machine learns the same from the same log.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from switchgear.breaker.values import Count, Instant
from switchgear_schemas.pacing import DEMAND_S, StatedLimit
from switchgear_schemas.pacing import LONGEST_PERIOD_S as LONGEST_STATED_S

MEASURED_S: Final = 10
"""Seconds in which the accepted calls are counted. Also the period in which a learned rate is kept."""
KEPT_S: Final = 60
"""Seconds in which they are counted, if there are fewer than :data:`ENOUGH`."""
ENOUGH: Final = 20
LEAST_MEASURED_S: Final = 5.0
"""A shorter time tells no rate, unless the tool says how long it will refuse."""
LONG_WAIT_S: Final = 5.0
"""Who asks to wait so long has counted the calls of a period: it ends then."""
LONGEST_PERIOD_S: Final = 3_600.0
"""Of a limit that is learned."""
NEARLY: Final = 0.8
"""Share of a known period after which it may end."""
LEAST_PAUSE_S: Final = 1.0
"""A shorter wait is over before anybody hears of it."""
MOST_PAUSE_S: Final = 3_600.0
"""After a longer wait one call asks again."""
CUT_EVERY_S: Final = 2.0
"""The 429s of calls that were under way at a cut are no news."""
CUT: Final = 0.95
"""Of the measured rate. The rest lets the tool's own window empty."""
DEEPEST_CUT: Final = 0.5
HOLD_S: Final = 3.0
"""After a 429 the rate doesn't grow for so long."""
GROWTH: Final = 0.2
"""The rate grows by this share a period, for each period that it was used in since the last 429: it doubles in 2.6 periods (26 s if none is known)."""
FASTEST_GROWTH: Final = 0.6
"""A period."""
USED: Final = 0.8
"""A rate that isn't used up to this share says nothing about the tool's limit, and doesn't grow."""
LEAST_RATE: Final = 1 / 60
"""A call a minute finds out whether the tool takes calls again."""
MOST_RATE: Final = 1e6
"""Of a limit that is learned."""
DEPTH: Final = 0.05
"""Share of a period's calls by which the fleet may be ahead of the rate; one call at the least."""
LEAST_GRANTED: Final = 0.2
"""Share of the rate that is granted at the least, while the fleet pays back."""
PAID_BACK_IN: Final = 0.2
"""Share of a period in which the fleet pays back what it called too much."""
FORGET_S: Final = 3_600.0
"""A limit that no 429 has shown for so long is gone."""
BACK_S: Final = 60.0
"""If time goes back by more, a broker's clock was ahead."""


def _depth(calls: float) -> float:
    """Return how many calls the fleet may be ahead, of those of a period."""
    return max(1.0, DEPTH * calls)


class Observed(msgspec.Struct, frozen=True, gc=False):
    """What an event says about the pace of its tool."""

    asked: int = 1
    """Calls that its process asked for since it last said so."""
    made: bool = True
    limited: bool = False
    """The tool refused the call as too many."""
    answered: bool = True
    """It answered the call, in whatever way."""
    wait_s: float | None = None
    """How long it asked to wait."""
    duration_s: float = 0.0
    refused: int = 0
    """Calls that the event stands for and that were not made, because their turn came too late."""
    waited_ms: int = 0
    """How long the call waited for its turn."""
    credential: str = ""
    process: str = ""


class Second(msgspec.Struct, array_like=True):
    """What happened in one second of the broker's clock. Append new fields with a default: older rows then still load."""

    at: Count
    asked: Count = 0
    """Calls asked for: made, waiting, or refused by their turn."""
    made: Count = 0
    limited: Count = 0
    """Of those, the ones that the tool refused as too many."""
    refused: Count = 0
    """Calls that were not made, because their turn came too late."""
    waited: Count = 0
    """Of those made, the ones that waited for their turn."""
    waited_ms: Count = 0
    """How long they waited, in all."""

    def add(self, event: Observed) -> None:
        """Count what an event says."""
        self.asked += event.asked
        self.refused += event.refused
        if event.made:
            self.made += 1
            self.limited += event.limited
            self.waited += event.waited_ms > 0
            self.waited_ms += event.waited_ms

    def add_all(self, other: Second) -> None:
        """Count what another second counted."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNTED: Final = tuple(field for field in Second.__struct_fields__ if field != "at")


class Limit(msgspec.Struct, array_like=True):
    """What is known of a limit. A row holds it as it is. Append new fields with a default: older rows then still load."""

    clock: Instant
    """How far it has been brought."""
    since: Instant
    """When the count of the accepted calls began: with the first call, or at the end of the last pause."""
    accepted: Count = 0
    """Calls that the tool took since then."""
    rate: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Calls a second. None until there is a measurement, and after an hour without a 429."""
    seconds: list[Second] = []
    """Those of the last :data:`KEPT_S` in which something happened, and the one under way."""
    limited_at: Instant | None = None
    """When the last 429 came."""
    cut_at: Instant = 0.0
    paused_until: Instant = 0.0
    period_s: Annotated[float, Meta(gt=0, le=LONGEST_STATED_S)] = float(MEASURED_S)
    """Seconds in which the rate is kept: as long as the tool's own period, if its waits show one."""
    tried_s: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds since the last 429 in which the rate was used."""
    level: Annotated[float, Meta(ge=-1e9, le=1e9)] = 0.0
    """Calls that the fleet may be ahead of the rate. Below 0: it is ahead by more, and pays back."""

    def advance(self, now: float, stated: StatedLimit | None) -> None:
        """Apply what time alone changes."""
        if self.clock - now > BACK_S:
            self._set_back(now)
        if stated is not None:
            if self.rate is None:
                self.level = _depth(stated.calls)
            self.rate, self.period_s = stated.rate, stated.period_s
        elapsed = now - self.clock
        if elapsed <= 0:
            return
        if stated is None and self.rate is not None and int(now) > int(self.clock):
            self._grow(now)
        self.clock = now
        if self.rate is not None:
            self.level = min(self.level + self.rate * elapsed, _depth(self.rate * self.period_s))

    def add(self, now: float, stated: StatedLimit | None, event: Observed) -> None:
        """Count what an event says, and learn from it."""
        self.advance(now, stated)
        self._second(int(self.clock)).add(event)
        if not event.made:
            return
        if self.rate is not None:
            self.level = max(self.level - 1.0, -self.rate * self.period_s)
        if event.limited:
            self._refused(stated, event.wait_s)
        elif event.answered:
            self.accepted += 1
            self._taken(self.clock - event.duration_s)

    def _refused(self, stated: StatedLimit | None, wait_s: float | None) -> None:
        """Learn from a call that the tool refused as too many."""
        now, wait_s = self.clock, min(wait_s or 0.0, MOST_PAUSE_S)
        if stated is None and now >= self.cut_at + CUT_EVERY_S and now >= self.paused_until:
            self._cut(now, wait_s)
        self.limited_at, self.tried_s = now, 0.0
        if wait_s >= LEAST_PAUSE_S and now + wait_s > self.paused_until:
            self.paused_until = now + wait_s
            self.since, self.accepted = self.paused_until, 0

    def _taken(self, began: float) -> None:
        """Learn from a call that the tool took, and that began at ``began``: it doesn't refuse all."""
        if self.limited_at is not None and self.clock < self.paused_until and began > self.limited_at:
            self.paused_until = self.since = self.clock
            self.accepted = 0

    @property
    def granted(self) -> float | None:
        """The calls a second that the processes divide. None if no rate is known."""
        if self.rate is None or self.level >= 0:
            return self.rate
        owed = -self.level / (self.rate * self.period_s * PAID_BACK_IN)
        return self.rate * max(LEAST_GRANTED, 1.0 - owed)

    def sums(self, until: int) -> Second:
        """Return what happened in the :data:`DEMAND_S` seconds before the second ``until``."""
        found = Second(until)
        for each in reversed(self.seconds):
            if each.at < until - DEMAND_S:
                break
            if each.at < until:
                found.add_all(each)
        return found

    def forgettable(self) -> bool:
        """Return whether nothing is known of it any more."""
        return self.limited_at is None or self.clock - self.limited_at > FORGET_S

    def _grow(self, now: float) -> None:
        """Raise the rate, once a second, or forget it."""
        assert self.rate is not None
        quiet_s = now - (self.cut_at if self.limited_at is None else self.limited_at)
        if quiet_s > FORGET_S:
            self.rate = None
            return
        if quiet_s < HOLD_S or now < self.paused_until:
            return
        if self.sums(int(now)).made < USED * self.rate * DEMAND_S:
            return
        self.tried_s += 1.0
        growth = min(GROWTH * self.tried_s / self.period_s, FASTEST_GROWTH) / self.period_s
        self.rate = min(self.rate * (1.0 + growth), MOST_RATE)

    def _cut(self, now: float, wait_s: float) -> None:
        """Set the rate to what the tool accepts, if that can be said yet."""
        elapsed, accepted = now - self.since, self.accepted
        if LONG_WAIT_S <= wait_s <= KEPT_S < elapsed:  # a short period, of which a slow time before it says nothing
            lately = sum(each.made - each.limited for each in self.seconds)
            lately_s = now - self.seconds[0].at
            if lately * (elapsed + wait_s) > accepted * (lately_s + wait_s):
                elapsed, accepted = lately_s, lately
        ends = wait_s >= LONG_WAIT_S or (self.period_s > MEASURED_S and elapsed + wait_s >= NEARLY * self.period_s)
        if ends and elapsed + wait_s <= LONGEST_PERIOD_S:  # a period of the tool's, from its begin
            self.period_s = max(elapsed + wait_s, float(MEASURED_S))
            measured, least = accepted / (elapsed + wait_s), LEAST_RATE
        elif elapsed < LEAST_MEASURED_S:
            return
        else:
            measured = self._measured(now, elapsed)
            least = LEAST_RATE if self.rate is None else DEEPEST_CUT * self.rate
        rate = max(CUT * measured, least, LEAST_RATE)
        self.rate = min(rate, MOST_RATE if self.rate is None else self.rate)
        self.cut_at = now

    def _measured(self, now: float, elapsed: float) -> float:
        """Return the calls a second that the tool accepted lately, or since the count began, ``elapsed`` seconds ago.

        One is added: of few calls, the next one could have been accepted as well.
        """
        second, accepted, counted_s = int(now), 0, 0
        for each in reversed(self.seconds):
            if accepted >= ENOUGH and second - each.at > MEASURED_S:
                break
            accepted += each.made - each.limited
            counted_s = second - each.at
        return (accepted + 1) / min(elapsed, max(counted_s, MEASURED_S) + now - second)

    def _second(self, at: int) -> Second:
        seconds = self.seconds
        if not seconds or seconds[-1].at != at:
            seconds.append(Second(at))
            while seconds[0].at < at - KEPT_S:
                del seconds[0]
        return seconds[-1]

    def _set_back(self, now: float) -> None:
        """Follow a clock that goes back. What was counted ahead of it says nothing."""
        self.clock = self.since = now
        self.seconds, self.accepted, self.level = [], 0, min(self.level, 0.0)
        self.cut_at, self.paused_until = min(self.cut_at, now), min(self.paused_until, now)
        if self.limited_at is not None:
            self.limited_at = min(self.limited_at, now)
