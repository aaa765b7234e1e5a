"""The windows over which calls are counted: the last N calls, or the last N seconds."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

FAILED: Final = 1
SLOW: Final = 2
Call = tuple[int, int]
"""Flags (:data:`FAILED`, :data:`SLOW`) and tokens of one call."""


class CountWindow:
    """Counts over the last ``size`` calls, one byte each. Ignored calls are counted apart and take no place."""

    __slots__ = ("calls", "failed", "flags", "ignored", "size", "slow", "stamp", "tokens", "tokens_of")

    fixed: Final = False

    def __init__(self, size: int) -> None:
        self.size = size
        self.stamp = 0
        """Calls counted so far. Reporters use it as their stamp."""
        self.clear()

    def clear(self) -> None:
        """Forget every call."""
        self.flags = bytearray(self.size)
        self.tokens_of: array[int] | None = None  # eight bytes a call: made when the first failed call had tokens
        self.calls = self.failed = self.slow = self.ignored = self.tokens = 0

    @property
    def oldest(self) -> int:
        """Stamp of the oldest call in the window."""
        return self.stamp - self.size + 1

    def add(self, now: float, slow: bool) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one call that did not fail. The oldest leaves the window."""
        self._enter(SLOW if slow else 0)

    def add_failed(self, now: float, slow: bool, tokens: int) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one failed call and the tokens it wasted."""
        self._enter(FAILED | SLOW if slow else FAILED)
        if tokens:
            if self.tokens_of is None:
                self.tokens_of = array("q", bytes(8 * self.size))
            self.tokens_of[self.stamp % self.size] = tokens
            self.tokens += tokens

    def _enter(self, flags: int) -> None:
        self.stamp += 1
        place = self.stamp % self.size
        if self.calls == self.size:
            old = self.flags[place]
            self.failed -= old & FAILED
            self.slow -= old >> 1
            if self.tokens_of is not None:
                self.tokens -= self.tokens_of[place]
                self.tokens_of[place] = 0
        else:
            self.calls += 1
        self.flags[place] = flags
        self.failed += flags & FAILED
        self.slow += flags >> 1

    def add_ignored(self, now: float) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one ignored call."""
        self.ignored += 1

    def stamp_of(self, moment: float) -> int:  # noqa: ARG002 - one signature for both windows
        """Return the present stamp: calls have no time here."""
        return self.stamp

    def roll(self, now: float) -> None:
        """Do nothing: time moves no call out of this window."""

    def forget_slow(self) -> None:
        """Forget which calls were slow, because another duration makes a call slow now."""
        self.flags = bytearray(flags & FAILED for flags in self.flags)
        self.slow = 0

    def __iter__(self) -> Iterator[Call]:
        """Yield the calls, the oldest first."""
        for stamp in range(self.stamp - self.calls + 1, self.stamp + 1):
            place = stamp % self.size
            yield self.flags[place], 0 if self.tokens_of is None else self.tokens_of[place]

    def put(self, call: Call) -> None:
        """Count a call that :meth:`__iter__` yielded."""
        flags, tokens = call
        slow = bool(flags & SLOW)
        if flags & FAILED:
            self.add_failed(0.0, slow, tokens)
        else:
            self.add(0.0, slow)


FIELDS: Final = 5
"""Numbers in a pane: calls, failed, slow, ignored, tokens."""
DEFAULT_PANES: Final = 20
"""The oldest pane leaves as a whole, so a window is exact to a twentieth of its size."""
Pane = tuple[int, int, int, int, int, int]
"""Index of a pane, then its :data:`FIELDS` numbers."""


def panes_of(size: float, panes: int | None) -> int:
    """Return the number of panes: ``panes`` if given, else one per second up to :data:`DEFAULT_PANES`."""
    return panes if panes is not None else max(1, min(DEFAULT_PANES, int(size)))


class TimeWindow:
    """Counts over the last ``size`` seconds, exact to one pane. If the clock goes backwards, calls count in the newest pane."""

    __slots__ = ("_base", "calls", "failed", "ignored", "panes", "ring", "size", "slow", "stamp", "tokens", "width")

    def __init__(self, size: float, panes: int, now: float) -> None:
        self.size = size
        self.panes = panes
        self.width = size / panes
        self.stamp = int(now // self.width)
        """Index of the newest pane since the clock's zero. Reporters use it as their stamp."""
        self.clear()

    def clear(self) -> None:
        """Forget every call."""
        self.ring = array("q", bytes(8 * FIELDS * self.panes))
        self._base = self.stamp % self.panes * FIELDS
        self.calls = self.failed = self.slow = self.ignored = self.tokens = 0

    @property
    def oldest(self) -> int:
        """Stamp of the oldest pane that still counts."""
        return self.stamp - self.panes + 1

    @property
    def fixed(self) -> bool:
        """Whether the window starts empty at fixed times instead of sliding."""
        return self.panes == 1

    def add(self, now: float, slow: bool) -> None:
        """Count one call that did not fail."""
        stamp = int(now // self.width)
        if stamp > self.stamp:
            self._slide(stamp)
        self.ring[self._base] += 1
        self.calls += 1
        if slow:
            self.ring[self._base + 2] += 1
            self.slow += 1

    def add_failed(self, now: float, slow: bool, tokens: int) -> None:
        """Count one failed call and the tokens it wasted."""
        self.add(now, slow)
        ring, base = self.ring, self._base
        ring[base + 1] += 1
        self.failed += 1
        if tokens:
            ring[base + 4] += tokens
            self.tokens += tokens

    def add_ignored(self, now: float) -> None:
        """Count one ignored call."""
        self.roll(now)
        self.ring[self._base + 3] += 1
        self.ignored += 1

    def stamp_of(self, moment: float) -> int:
        """Return the index of the pane that an instant is in."""
        return int(moment // self.width)

    def index_in(self, other: TimeWindow, index: int) -> int:
        """Return the index that a pane of this window has in another one."""
        return min(int(index * self.width // other.width), other.stamp)

    def roll(self, now: float) -> None:
        """Drop the panes that are too old at ``now``."""
        stamp = int(now // self.width)
        if stamp > self.stamp:
            self._slide(stamp)

    def forget_slow(self) -> None:
        """Forget which calls were slow, because another duration makes a call slow now."""
        self.ring[2::FIELDS] = array("q", bytes(8 * self.panes))
        self.slow = 0

    def _slide(self, stamp: int) -> None:
        gone = stamp - self.stamp
        if gone >= self.panes:
            self.stamp = stamp
            self.clear()
            return
        ring = self.ring
        for index in range(self.stamp + 1, stamp + 1):
            base = index % self.panes * FIELDS
            self.calls -= ring[base]
            self.failed -= ring[base + 1]
            self.slow -= ring[base + 2]
            self.ignored -= ring[base + 3]
            self.tokens -= ring[base + 4]
            ring[base : base + FIELDS] = _EMPTY
        self.stamp = stamp
        self._base = stamp % self.panes * FIELDS

    def __iter__(self) -> Iterator[Pane]:
        """Yield the panes that have calls, the oldest first."""
        for index in range(self.oldest, self.stamp + 1):
            base = index % self.panes * FIELDS
            calls, failed, slow, ignored, tokens = self.ring[base : base + FIELDS]
            if calls or ignored:
                yield index, calls, failed, slow, ignored, tokens

    def put(self, pane: Pane) -> None:
        """Add a pane's numbers at its index. Ignore a pane that is too old, or in the future."""
        index, *numbers = pane
        if not self.oldest <= index <= self.stamp:
            return
        base = index % self.panes * FIELDS
        for offset, number in enumerate(numbers):
            self.ring[base + offset] += number
        calls, failed, slow, ignored, tokens = numbers
        self.calls += calls
        self.failed += failed
        self.slow += slow
        self.ignored += ignored
        self.tokens += tokens


_EMPTY: Final = array("q", bytes(8 * FIELDS))
