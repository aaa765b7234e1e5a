"""Virtual time, and the actions that are due in it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

EPOCH: Final = 1_800_000_000.0
"""The broker's clock at the beginning, in seconds since 1970."""


def instant(text: str) -> float:
    """Return the seconds since 1970 of an instant in JSON."""
    return datetime.fromisoformat(text).timestamp()


class Agenda:
    """A heap of actions. Actions of the same instant run in the order in which they were added, so all runs are the same."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, when: float, action: Callable[..., None], *args: Any) -> None:
        """Run ``action(*args)`` at ``when``, or now if that has passed."""
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, action, args))

    def after(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """Run ``action(*args)`` in ``seconds``."""
        self.at(self.now + seconds, action, *args)

    def wall(self) -> float:
        """Return the time of the broker's clock."""
        return EPOCH + self.now

    def run(self, until: float) -> int:
        """Run every action up to ``until``, and return their number."""
        heap, done = self._heap, 0
        while heap and heap[0][0] <= until:
            self.now, _, action, args = heapq.heappop(heap)
            action(*args)
            done += 1
        self.now = max(self.now, until)
        return done
