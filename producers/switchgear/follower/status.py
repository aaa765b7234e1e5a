"""How current this process's picture of the fleet is."""

from __future__ import annotations

from dataclasses import dataclass


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
