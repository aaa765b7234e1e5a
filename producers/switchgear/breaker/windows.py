"""The windows over which calls are counted: the last N calls, or the last N seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

FAILED: Final = 1
SLOW: Final = 2
DEFAULT_PANES: Final = 20
"""The oldest pane leaves as a whole, so a window is exact to a twentieth of its size."""


class CountWindow:
    """Counts over the last ``size`` calls. Ignored calls are counted apart and take no place."""

    __slots__ = ("_entries", "calls", "failed", "ignored", "size", "slow", "stamp", "tokens")

    fixed: Final = False
    panes: Final = 0

    def __init__(self, size: int) -> None:
        self.size = size
        self.stamp = 0
        """Calls counted so far. Reporters use it as their stamp."""
        self.clear()

    def clear(self) -> None:
        """Forget every call."""
        self.load(self.stamp, ())

    @property
    def oldest(self) -> int:
        """Stamp of the oldest call in the window."""
        return self.stamp - self.size + 1

    def add(self, now: float, slow: bool) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one call that did not fail. The oldest leaves the window."""
        self._enter(SLOW if slow else 0, 0)

    def add_failed(self, now: float, slow: bool, tokens: int) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one failed call and the tokens it wasted."""
        self._enter(FAILED | SLOW if slow else FAILED, tokens)

    def fail_slow(self, now: float, at: float, tokens: int) -> None:  # noqa: ARG002 - one signature for both windows
        """Count that a call failed which :meth:`add` counted as slow. It keeps its place, if it is still in the window."""
        if self.slow:
            for place in range(len(self._entries) - 1, -1, -1):
                if self._entries[place][0] == SLOW:
                    self._entries[place] = (FAILED | SLOW, tokens)
                    self._count_bad(1, FAILED, tokens)
                    return
        self._enter(FAILED, tokens)

    @property
    def pane_end(self) -> None:
        """None: this window has no panes."""
        return

    def add_many(self, count: int) -> None:
        """Count calls that did not fail."""
        for _ in range(count):
            self._enter(0, 0)

    def add_ignored(self, now: float) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one ignored call."""
        self.ignored += 1

    def roll(self, now: float) -> None:
        """Do nothing: time moves no call out of this window."""

    def began_earlier(self, started_at: float, now: float) -> bool:  # noqa: ARG002 - one signature for both windows
        """Return False: this window has no panes."""
        return False

    def dump(self) -> list[tuple[int, ...]]:
        """Return the flags (:data:`FAILED`, :data:`SLOW`) and tokens of each call, the oldest first."""
        return list(self._entries)

    def load(self, stamp: int, entries: Iterable[tuple[int, ...]]) -> None:
        """Hold the calls that :meth:`dump` returned."""
        self._entries: deque[tuple[int, ...]] = deque()
        self.calls = self.failed = self.slow = self.ignored = self.tokens = 0
        for flags, tokens in entries:
            self._enter(flags, tokens)
        self.stamp = stamp

    def _enter(self, flags: int, tokens: int) -> None:
        self.stamp += 1
        self._entries.append((flags, tokens) if tokens else _WITHOUT_TOKENS[flags])
        if flags:
            self._count_bad(1, flags, tokens)
        if self.calls < self.size:
            self.calls += 1
            return
        flags, tokens = self._entries.popleft()
        if flags:
            self._count_bad(-1, flags, tokens)

    def _count_bad(self, sign: int, flags: int, tokens: int) -> None:
        self.failed += sign * (flags & FAILED)
        self.slow += sign * (flags >> 1)
        self.tokens += sign * tokens


_WITHOUT_TOKENS: Final = ((0, 0), (1, 0), (2, 0), (3, 0))
"""Shared, so that such a call takes the eight bytes of a reference."""


class TimeWindow:
    """Counts over the last ``size`` seconds, exact to one pane. If the clock goes backwards, calls count in the newest pane."""

    def __init__(self, size: float, panes: int | None, now: float) -> None:
        self.size = size
        self.panes = panes or max(1, min(DEFAULT_PANES, int(size)))
        """Number of panes. By default one per second, up to :data:`DEFAULT_PANES`."""
        self.width = size / self.panes
        self.fixed = self.panes == 1
        """Whether the window starts empty at fixed times instead of sliding."""
        self.stamp = int(now // self.width)
        """Index of the newest pane since the clock's zero. Reporters use it as their stamp."""
        self.clear()

    def clear(self) -> None:
        """Forget every call."""
        self.load(self.stamp, ())

    @property
    def oldest(self) -> int:
        """Stamp of the oldest pane that still counts."""
        return self.stamp - self.panes + 1

    def add(self, now: float, slow: bool) -> None:
        """Count one call that did not fail."""
        stamp = int(now // self.width)
        if stamp > self.stamp:
            self._slide(stamp)
        self.newest[0] += 1
        self.calls += 1
        if slow:
            self.newest[2] += 1
            self.slow += 1

    def add_failed(self, now: float, slow: bool, tokens: int) -> None:
        """Count one failed call and the tokens it wasted."""
        self.add(now, slow)
        self.newest[1] += 1
        self.failed += 1
        self.newest[4] += tokens
        self.tokens += tokens

    def fail_slow(self, now: float, at: float, tokens: int) -> None:
        """Count that a call failed which :meth:`add` counted as slow at about ``at``. It moves to ``now``.

        Reports take different times to arrive, so it may be in a pane beside that of ``at``. If its pane has left the window, the
        call counts anew.
        """
        self.roll(now)
        around = int(at // self.width)
        for index in (around, around + 1, around - 1):
            pane = self._entries.get(index)
            if pane is not None and pane[2] and pane[0] > pane[1]:
                pane[0] -= 1
                pane[2] -= 1
                self.calls -= 1
                self.slow -= 1
                self.add_failed(now, True, tokens)
                return
        self.add_failed(now, False, tokens)

    @property
    def pane_end(self) -> float | None:
        """The time until which calls count in the newest pane. None for a fixed window, whose calls are looked at one by one."""
        return None if self.fixed else (self.stamp + 1) * self.width

    def add_many(self, count: int) -> None:
        """Count calls of the newest pane that did not fail."""
        self.newest[0] += count
        self.calls += count

    def add_ignored(self, now: float) -> None:
        """Count one ignored call."""
        self.roll(now)
        self.newest[3] += 1
        self.ignored += 1

    def roll(self, now: float) -> None:
        """Drop the panes that are too old at ``now``."""
        stamp = int(now // self.width)
        if stamp > self.stamp:
            self._slide(stamp)

    def began_earlier(self, started_at: float, now: float) -> bool:
        """Return whether a call began in an earlier pane than the one at ``now``. In a fixed window that is an earlier window."""
        return int(started_at // self.width) < int(now // self.width)

    def dump(self) -> list[tuple[int, ...]]:
        """Return the index and the counts of each pane that has calls, the oldest first."""
        return [(index, *pane) for index, pane in self._entries.items() if pane[0] or pane[3]]

    def load(self, stamp: int, entries: Iterable[tuple[int, ...]]) -> None:
        """Hold the panes that :meth:`dump` returned."""
        self.stamp = stamp
        self._entries = {index: pane for index, *pane in entries}
        self.newest = self._entries.setdefault(stamp, [0] * 5)
        """Calls, failed, slow, ignored and tokens of the newest pane."""
        self.calls, self.failed, self.slow, self.ignored, self.tokens = map(
            sum, zip(*self._entries.values(), strict=True)
        )

    def _slide(self, stamp: int) -> None:
        self.stamp = stamp
        self.newest = self._entries[stamp] = [0] * 5
        while (first := next(iter(self._entries))) < self.oldest:
            calls, failed, slow, ignored, tokens = self._entries.pop(first)
            self.calls -= calls
            self.failed -= failed
            self.slow -= slow
            self.ignored -= ignored
            self.tokens -= tokens
