"""How long a batch waits: the longer, the more of a core the inserts take."""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.05
"""Inserts may take so much of a core. If they take more, batches wait longer, up to their longest age."""


class Pace:
    """Says when a batch is due by its age. One is shared by all inserts of a process.

    An insert of 20 rows takes as long as one of 200, so with little traffic, fewer inserts cost less. The first row after a quiet time
    still waits only for the least age.

    Args:
        least_s: A record waits at least so long for others, unless the batch is full before.
        longest_s: A record waits at most so long.
    """

    def __init__(self, least_s: float, longest_s: float) -> None:
        self._least_s = least_s
        self._longest_s = max(least_s, longest_s)
        self._paid_at = float("-inf")

    def book(self, cost_s: float, now: float) -> None:
        """Count an insert that ended at ``now`` and took ``cost_s`` by the clock: little more than of processor time, in the embedded engine."""
        self._paid_at = min(max(self._paid_at, now) + cost_s / SHARE, now + self._longest_s)

    def due_at(self, oldest_at: float) -> float:
        """Return when a batch is due whose oldest record came at ``oldest_at``."""
        return min(max(oldest_at + self._least_s, self._paid_at), oldest_at + self._longest_s)
