"""A clock that a test moves."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Final

from switchgear import arguments

START: Final = 1_800_000_000.0
"""15 January 2027, 08:00 UTC."""
_MOST_S: Final = 1e11
"""About 3,000 years. The calendar of Python ends with the year 9999."""


class FakeClock:
    """A monotonic and a wall clock that advance together. Thread-safe.

    Args:
        start: The first time of the wall clock, in seconds since 1970.

    Raises:
        SwitchgearError: ``start`` is out of range.
    """

    def __init__(self, start: float = START) -> None:
        arguments.number("start", start, most=_MOST_S)
        self._start = start
        self._elapsed = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Return the seconds since this clock was made. Replaces :func:`time.monotonic`."""
        return self._elapsed

    def wall(self) -> float:
        """Return the seconds since 1970. Replaces :func:`time.time`."""
        return self._start + self._elapsed

    def now(self) -> datetime:
        """Return the time of the wall clock in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def advance(self, seconds: float) -> None:
        """Move both clocks forward.

        Raises:
            SwitchgearError: ``seconds`` is negative or out of range. The error is a ValueError too.
        """
        arguments.number("seconds", seconds, most=_MOST_S)
        with self._lock:
            self._elapsed += seconds
