"""FakeClock: time that moves when a test says so."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Final

from switchgear import arguments

START: Final = 1_800_000_000.0
"""15 January 2027, 08:00 UTC: where a clock starts that was not told where."""
_MOST_S: Final = 1e11
"""Some 3,000 years: the calendar ends with the year 9999."""


class FakeClock:
    """A monotonic and a wall clock in step, both in seconds. Safe to use from threads.

    Args:
        start: the wall clock's first reading, in seconds since 1970.

    Raises:
        SwitchgearError: ``start`` is no such number.
    """

    def __init__(self, start: float = START) -> None:
        arguments.number("start", start, most=_MOST_S)
        self._start = start
        self._elapsed = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Seconds since this clock was made; stands in for :func:`time.monotonic`."""
        return self._elapsed

    def wall(self) -> float:
        """Seconds since 1970; stands in for :func:`time.time`."""
        return self._start + self._elapsed

    def now(self) -> datetime:
        """The wall clock as an instant in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def advance(self, seconds: float) -> None:
        """Move both clocks on.

        Raises:
            SwitchgearError: ``seconds`` is no finite number, or negative: time does not run backwards. It is a ValueError too.
        """
        arguments.number("seconds", seconds, most=_MOST_S)
        with self._lock:
            self._elapsed += seconds
