"""The status of the follower, and when the broker last answered it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

STALE_AFTER_S: Final = 15.0
"""A broker that has not answered for so long counts as down: thirty missed fetches."""


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
