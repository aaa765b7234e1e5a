"""The status of the follower, when the broker last answered it, and the broker's time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

STALE_AFTER_S: Final = 15.0
"""A broker that has not answered for so long counts as down. An idle one answers every 10 s, when the wait of a fetch ends."""
SAMPLES: Final = 16
"""Differences in memory. A record that was read late makes the clock look ahead, so the smallest difference counts."""
FRESH_S: Final = 1.0
"""Records count only if a fetch waited for them at the broker, with no longer break than this: those of a backlog are old."""
NOTICED_S: Final = 1.0
"""A smaller difference is ignored."""
JUMP_S: Final = 60.0
"""A record that shows so much more than all others comes from a broker whose clock is ahead. It is believed when a second one agrees."""


@dataclass(frozen=True, slots=True)
class FollowerStatus:
    """The status of a follower.

    Attributes:
        loaded: Whether the circuits were read once.
        connected: Whether there is a connection to the broker.
        circuits: Number of circuits.
        lag: Records that are not read yet. None if that is not known.
        age_s: Seconds since the broker last answered. None before the first answer.
        malformed: Records that are not circuits.
        last_error: Why the last connection failed.
        stale: Whether the broker has not answered for :data:`STALE_AFTER_S`, or never. The circuits may be outdated.
    """

    loaded: bool
    connected: bool
    circuits: int
    lag: int | None
    age_s: float | None
    malformed: int
    last_error: str | None
    stale: bool = False


class LastAnswer:
    """When the broker last answered for each partition.

    An answer is a stamp that changed since the last look. One thread notes stamps, any thread may ask. The time for which a machine
    sleeps does not count, as with every monotonic clock.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Any, tuple[object, float]] = {}
        self._at: float | None = None

    def note(self, stamps: Mapping[Any, int | None]) -> bool:
        """Note the stamp of each partition's last answer, which is None or 0 before the first.

        Returns:
            Whether every partition has one.
        """
        if not stamps or not all(stamps.values()):
            return False
        now, before = self._clock(), self._seen
        self._seen = {
            each: known if (known := before.get(each)) is not None and known[0] == stamp else (stamp, now)
            for each, stamp in stamps.items()
        }
        self._at = min(seen for _, seen in self._seen.values())
        return True

    def forget(self) -> None:
        """Forget all answers."""
        self._seen, self._at = {}, None

    def age_s(self) -> float | None:
        """Return the seconds since the oldest of the partitions' last answers, or None before the first."""
        at = self._at
        return None if at is None else self._clock() - at


class BrokerTime:
    """Returns seconds since 1970 by the broker's clock when called. One thread reports records, any thread may call.

    A circuit's ``open_until`` and a lease's ``expires_at`` are instants of the broker's clock. On a machine whose clock is ahead,
    leases seem expired, and probes are asked for too early. Each record that is read as soon as it is written shows the difference
    between the clocks, to some milliseconds.

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
        ahead, *others = sorted(self._samples)
        if len(others) > 1 and others[0] - ahead > JUMP_S:
            ahead = others[0]
        self.ahead_s = ahead if abs(ahead) >= NOTICED_S else 0.0
