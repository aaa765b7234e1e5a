"""CountWindow: the last N calls, one byte each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

FAILED: Final = 1
SLOW: Final = 2
Call = tuple[int, int]
"""Flags (:data:`FAILED`, :data:`SLOW`) and tokens of one call."""


class CountWindow:
    """Counts over the last ``size`` calls. Ignored calls do not enter the ring; they are counted beside it."""

    __slots__ = ("calls", "failed", "flags", "ignored", "size", "slow", "stamp", "tokens", "tokens_of")

    fixed: Final = False

    def __init__(self, size: int) -> None:
        self.size = size
        self.stamp = 0
        """Calls counted so far; the reporters' stamp."""
        self.clear()

    def clear(self) -> None:
        """Forget every call."""
        self.flags = bytearray(self.size)
        self.tokens_of: array[int] | None = None  # eight bytes a call: made when the first failed call had tokens
        self.calls = self.failed = self.slow = self.ignored = self.tokens = 0

    @property
    def oldest(self) -> int:
        """Stamp of the oldest call that still counts."""
        return self.stamp - self.size + 1

    def add(self, now: float, slow: bool) -> None:  # noqa: ARG002 - one signature for both windows
        """Count one call that did not fail, and let go of the oldest."""
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
        """Count one call that is neither success nor failure."""
        self.ignored += 1

    def stamp_of(self, moment: float) -> int:  # noqa: ARG002 - one signature for both windows
        """The present stamp: calls have no place in time here."""
        return self.stamp

    def roll(self, now: float) -> None:
        """Nothing grows old by time here."""

    def forget_slow(self) -> None:
        """Forget which calls were slow: the duration that makes one slow has changed."""
        self.flags = bytearray(flags & FAILED for flags in self.flags)
        self.slow = 0

    def __iter__(self) -> Iterator[Call]:
        """The calls, oldest first."""
        for stamp in range(self.stamp - self.calls + 1, self.stamp + 1):
            place = stamp % self.size
            yield self.flags[place], 0 if self.tokens_of is None else self.tokens_of[place]

    def put(self, call: Call) -> None:
        """Count a call again, as :meth:`__iter__` gave it."""
        flags, tokens = call
        slow = bool(flags & SLOW)
        if flags & FAILED:
            self.add_failed(0.0, slow, tokens)
        else:
            self.add(0.0, slow)
