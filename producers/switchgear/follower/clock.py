"""BrokerTime: this machine's clock, set right by the broker's.

A circuit's ``open_until`` and a lease's ``expires_at`` are instants of the broker's clock. A machine whose clock is ahead by more than a
lease's life would take every lease for run out, and one that is ahead by more than ``fleet_silence`` would ask too early for so long that
it takes the circuit for nobody's and decides alone (found by the simulator, ``skew_s`` 60). Each record that is read as it is written tells how far
the two clocks are apart, give or take the milliseconds of its way.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

SAMPLES: Final = 16
"""A record that was long under way (the follower was behind) makes the clock look ahead: the smallest of the last ones is taken."""
FRESH_S: Final = 1.0
"""Records are heard of while the broker has answered within this time: those of a backlog are old. An idle one answers twice a second."""
NOTICED_S: Final = 1.0
"""Clocks that are less than this apart are left alone."""


class BrokerTime:
    """Called, it gives the seconds since 1970 by the broker's clock, as far as is known. One thread tells, any thread asks.

    Attributes:
        wall: this machine's clock, in seconds since 1970.
        ahead_s: how far that is ahead of the broker's; 0 where nothing is known, or too little to matter.
    """

    __slots__ = ("_samples", "ahead_s", "wall")

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.wall = wall
        self.ahead_s = 0.0
        self._samples: deque[float] = deque(maxlen=SAMPLES)

    def __call__(self) -> float:
        """Seconds since 1970, by the broker's clock."""
        return self.wall() - self.ahead_s

    def heard(self, timestamp_ms: int) -> None:
        """A record was read just now that the broker wrote at ``timestamp_ms`` (``LogAppendTime``)."""
        self._samples.append(self.wall() - timestamp_ms / 1000)
        ahead = min(self._samples)
        self.ahead_s = ahead if abs(ahead) >= NOTICED_S else 0.0
