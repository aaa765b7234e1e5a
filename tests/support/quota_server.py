"""A server with a quota, which many processes call: it takes so many calls in any period, and refuses the others as too many."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tests.support.call_server import FAILURE, SUCCESS, CallServer

TAKEN: Final = SUCCESS
REFUSED: Final = FAILURE


@dataclass
class Quota:
    """The calls of one arm of an experiment: each arm has a quota of its own."""

    calls: int
    period_s: float
    taken: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    _recent: deque[float] = field(default_factory=deque)

    def take(self, now: float) -> bool:
        """Take a call, or refuse it."""
        while self._recent and self._recent[0] <= now - self.period_s:
            self._recent.popleft()
        if len(self._recent) >= self.calls:
            self.refused.append(now)
            return False
        self._recent.append(now)
        self.taken.append(now)
        return True

    def fullest(self, since: float, until: float) -> float:
        """Return how many calls came in the fullest period between two instants, as a share of the quota."""
        made = sorted(at for at in (*self.taken, *self.refused) if since <= at < until)
        ends = (index + 1 - bisect_left(made, at - self.period_s) for index, at in enumerate(made))
        return max(ends, default=0) / self.calls


class QuotaServer(CallServer):
    """The server. The byte of a call is the arm."""

    def __init__(self, calls: int, period_s: float, arms: int) -> None:
        super().__init__()
        self.arms = [Quota(calls, period_s) for _ in range(arms)]

    async def answer(self, call: bytes) -> bytes:
        """Take the call, or refuse it."""
        return TAKEN if self.arms[call[0]].take(time.time()) else REFUSED
