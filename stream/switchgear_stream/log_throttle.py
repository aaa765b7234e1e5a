"""Repeats: one log line a second of each kind. aiokafka writes a hundred a second while its broker is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from switchgear_schemas import DeadLetter

EVERY_S: Final = 1.0
MAX_KINDS: Final = 1000


class Repeats(logging.Filter):
    """Passes the first line of each logger and message template, then one a second, with the number left out.

    Args:
        name: the logger, its children included, that this is for; lines of others pass.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written; it then tells how many like it were not."""
        if not super().filter(record):
            return True
        now = time.monotonic()
        kind = (record.name, str(record.msg))
        at, left_out = self._last.get(kind, (now - EVERY_S, 0))
        if now - at < EVERY_S:
            self._last[kind] = (at, left_out + 1)
            return False
        if len(self._last) > MAX_KINDS:
            self._last.clear()
        self._last[kind] = (now, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more like it)", ()
        return True


log = structlog.get_logger()
LETTERS_EVERY_S: Final = 5.0


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
        if not letters or now - self._told_at < LETTERS_EVERY_S:
            return
        last = letters[-1]
        log.warning("dead_letters", count=self._untold, last=last.key.decode(), field=last.field, reason=last.reason)
        self._told_at, self._untold = now, 0
