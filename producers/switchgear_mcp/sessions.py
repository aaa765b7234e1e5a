"""Bounds of the sessions of clients over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_SESSIONS: Final = 32
IDLE_S: Final = 30 * 60.0


@dataclass(frozen=True, slots=True)
class Sessions:
    """Bounds of the sessions of clients over HTTP.

    Attributes:
        most: How many may be open.
        idle_s: A session without a request and without an open stream ends after this, with its servers' processes.
    """

    most: int = MOST_SESSIONS
    idle_s: float = IDLE_S
