"""The follower's status, and when the broker last answered each partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

STALE_AFTER_S: Final = 15.0
"""A broker that has not answered the follower for so long is taken as away: thirty missed fetches."""


@dataclass(frozen=True, slots=True)
class FollowerStatus:
    """``lag``: records not yet read, where known. ``age_s``: seconds since the broker last answered; None before the first time."""

    loaded: bool
    connected: bool
    circuits: int
    lag: int | None
    age_s: float | None
    malformed: int
    last_error: str | None
    stale: bool = False
    """The broker has not answered for :data:`STALE_AFTER_S`, or never: the picture may be an old one."""


class LastAnswer:
    """Told of each partition's last answer by stamps of any kind: only that one has changed matters, and when that was seen.

    One thread notes, any thread asks. A machine that was asleep counts the time for which it was awake: monotonic clocks do.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Any, tuple[object, float]] = {}
        self._at: float | None = None

    def note(self, stamps: Mapping[Any, int | None]) -> bool:
        """By partition, the stamp of its last answer; none (or 0) where it was never answered.

        Returns:
            Whether there is one of every partition.
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
        """As if nothing had ever been answered."""
        self._seen, self._at = {}, None

    def age_s(self) -> float | None:
        """Seconds since the partition that was answered longest ago was answered; None before the first time."""
        at = self._at
        return None if at is None else self._clock() - at
