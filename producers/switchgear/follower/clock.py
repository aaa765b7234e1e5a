"""The broker's time, estimated from this machine's clock.

A circuit's ``open_until`` and a lease's ``expires_at`` are instants of the broker's clock. If this machine's clock is ahead by more than
the life of a lease, every lease seems expired. If it is ahead by more than ``fleet_silence``, a process asks for probes too early, gets no
answer, and decides alone. Each record that is read as soon as it is written shows the difference between the clocks, to some milliseconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

SAMPLES: Final = 16
"""Differences in memory. A record that was read late makes the clock look ahead, so the smallest difference counts."""
FRESH_S: Final = 1.0
"""Records count only if the broker answered within this time: those of a backlog are old. An idle broker answers twice a second."""
NOTICED_S: Final = 1.0
"""A smaller difference is ignored."""


class BrokerTime:
    """Returns seconds since 1970 by the broker's clock when called. One thread reports records, any thread may call.

    Attributes:
        wall: This machine's clock, in seconds since 1970.
        ahead_s: How far that clock is ahead of the broker's. 0 if that is not known, or ignored.
    """

    __slots__ = ("_samples", "ahead_s", "wall")

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.wall = wall
        self.ahead_s = 0.0
        self._samples: deque[float] = deque(maxlen=SAMPLES)

    def __call__(self) -> float:
        """Return seconds since 1970, by the broker's clock."""
        return self.wall() - self.ahead_s

    def heard(self, timestamp_ms: int) -> None:
        """Take in a record that was read just now, and that the broker wrote at ``timestamp_ms`` (``LogAppendTime``)."""
        self._samples.append(self.wall() - timestamp_ms / 1000)
        ahead = min(self._samples)
        self.ahead_s = ahead if abs(ahead) >= NOTICED_S else 0.0
