"""Repeats: one log line a second of each kind. aiokafka writes a hundred a second while its broker is away."""

from __future__ import annotations

import logging
import time
from typing import Final

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
