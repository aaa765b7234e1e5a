"""A clock that a test moves."""

from __future__ import annotations


class Clock:
    """A clock that shows ``now``. Set ``now`` to move it."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
