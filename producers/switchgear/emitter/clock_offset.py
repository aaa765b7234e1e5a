"""The distance between the monotonic clock, which the guard reads, and the calendar, which its events carry.

A guarded call reads only the monotonic clock, because another reading would make it slower. The background adds the distance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

NOTICED_S: Final = 0.05
"""A larger change means that the machine slept or the clock was set. Below it the clock is being adjusted."""
LOOK_EVERY_S: Final = 1.0


class ClockOffset:
    """Remembers how far the clocks are apart, and since when. An event from before the last change keeps its time.

    Args:
        clock: Returns monotonic seconds, as the guard reads them.
        wall: Returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self.since = 0.0
        """Time of the monotonic clock from which ``offset`` holds."""
        self.offset = self._earlier = wall() - clock()
        """Seconds to add to the monotonic clock."""

    def look(self) -> None:
        """Compare the clocks."""
        now = self._clock()
        offset = self._wall() - now
        if abs(offset - self.offset) > NOTICED_S:
            self._earlier, self.since = self.offset, now
        self.offset = offset

    def offset_at(self, instant: float) -> float:
        """Return what to add to a time of the monotonic clock."""
        return self.offset if instant >= self.since else self._earlier

    async def watch(self) -> None:
        """Call :meth:`look` every second until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)
