"""The quota of a tool, which refuses what is over it as too many calls."""

from __future__ import annotations

import math


class Quota:
    """So many calls in each period of the clock (``fixed``), or one after the other with a few at once."""

    def __init__(self, calls: int, period_s: float, *, fixed: bool) -> None:
        self.rate = calls / period_s
        self._calls = calls
        self._period_s = period_s
        self._fixed = fixed
        self._left = float(calls)
        self._at = 0.0
        self.taken = self.refused = 0

    def take(self, now: float) -> float | None:
        """Take a call. Return None, or how many seconds to wait instead."""
        if self._fixed:
            if now // self._period_s > self._at // self._period_s:
                self._left = float(self._calls)
        else:
            self._left = min(max(1.0, self.rate / 2), self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            self.taken += 1
            return None
        self.refused += 1
        if self._fixed:
            return (math.floor(now / self._period_s) + 1) * self._period_s - now
        return (1 - self._left) / self.rate
