"""How current this process's picture of the fleet is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
