"""What the log says of dead letters: a line every few seconds however many there are, so that a poisoned topic does not fill the log too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from switchgear_schemas import DeadLetter

log = structlog.get_logger()
EVERY_S: Final = 5.0


class LetterLog:
    """Tells of the first letter at once, and then of all since the last line.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told_at = float("-inf")
        self._untold = 0

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """More of them."""
        self._untold += len(letters)
        now = self._clock()
        if not letters or now - self._told_at < EVERY_S:
            return
        last = letters[-1]
        log.warning("dead_letters", count=self._untold, last=last.key.decode(), field=last.field, reason=last.reason)
        self._told_at, self._untold = now, 0
