"""TimeWindow: the calls of the last seconds, counted in a ring of panes with running totals.

A call costs the same whatever the window: totals are kept, and a pane that leaves is subtracted once. Memory is one
machine word a number and pane. A single pane makes a fixed window that starts anew at each multiple of its size.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

FIELDS: Final = 5
"""Numbers in a pane: calls, failed, slow, ignored, tokens."""
DEFAULT_PANES: Final = 20
"""A window is exact to a twentieth of its size: the oldest pane leaves as a whole."""
Pane = tuple[int, int, int, int, int, int]
"""Index of the pane, then its :data:`FIELDS` numbers."""


def panes_of(size: float, panes: int | None) -> int:
    """Panes of a window of ``size`` seconds: as asked, else one a second up to :data:`DEFAULT_PANES`."""
    return panes if panes is not None else max(1, min(DEFAULT_PANES, int(size)))


class TimeWindow:
    """Counts over the last ``size`` seconds, exact to one pane.

    A clock that goes back counts into the newest pane; nothing is lost and nothing raises.
    """

    __slots__ = ("_base", "calls", "failed", "ignored", "panes", "ring", "size", "slow", "stamp", "tokens", "width")

    def __init__(self, size: float, panes: int, now: float) -> None:
        self.size = size
        self.panes = panes
        self.width = size / panes
        self.stamp = int(now // self.width)
        """Index of the newest pane since the clock's zero; the reporters' stamp too."""
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
        """Whether the window starts anew instead of sliding."""
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
        """Count one call that is neither success nor failure."""
        self.roll(now)
        self.ring[self._base + 3] += 1
        self.ignored += 1

    def stamp_of(self, moment: float) -> int:
        """Index of the pane that an instant lies in."""
        return int(moment // self.width)

    def roll(self, now: float) -> None:
        """Let go of what has become too old at ``now``."""
        stamp = int(now // self.width)
        if stamp > self.stamp:
            self._slide(stamp)

    def forget_slow(self) -> None:
        """Forget which calls were slow: the duration that makes one slow has changed."""
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
        """The panes that hold calls, oldest first."""
        for index in range(self.oldest, self.stamp + 1):
            base = index % self.panes * FIELDS
            calls, failed, slow, ignored, tokens = self.ring[base : base + FIELDS]
            if calls or ignored:
                yield index, calls, failed, slow, ignored, tokens

    def put(self, pane: Pane) -> None:
        """Add a pane's numbers at its index, unless that is too old or yet to come."""
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
