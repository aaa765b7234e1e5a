"""Failures whose sources hide the kind of error: they count half, and only in the rate of failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

WEAK_SHARE: Final = 0.5
"""How much a failure counts whose source hides the kind of error. At the default of 50 %, only a tool that fails always opens by them."""
COUNT_HALF: Final = "failures of sources that hide the kind of error count half"
"""The reason in the cause of an open by such failures."""


class Weak:
    """Such failures in the window, by the stamp (pane or call number) at which they were counted."""

    __slots__ = ("by_stamp", "total")

    def __init__(self, by_stamp: Iterable[tuple[int, int]] = ()) -> None:
        self.by_stamp = dict(by_stamp)
        """In the order of the stamps, which never go backwards."""
        self.total = sum(self.by_stamp.values())

    def add(self, stamp: int) -> None:
        """Count a failure at ``stamp``."""
        self.by_stamp[stamp] = self.by_stamp.get(stamp, 0) + 1
        self.total += 1

    def count(self, oldest: int) -> int:
        """Forget those before ``oldest``, and return the number of the others."""
        while self.by_stamp and (first := next(iter(self.by_stamp))) < oldest:
            self.total -= self.by_stamp.pop(first)
        return self.total
