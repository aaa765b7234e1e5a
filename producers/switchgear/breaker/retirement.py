"""When a circuit may be forgotten: one rule for every owner that has to make room."""

from __future__ import annotations

from typing import Final

from switchgear.breaker.breaker import Breaker

IDLE_S: Final = 3_600.0
"""A closed circuit without evidence retires when nothing was recorded for this long. Not at once: a slow call that is still
out would come back to a circuit that nobody asks any more, and its failure would be lost."""
STALE_S: Final = 86_400.0
"""A closed circuit whose window is empty, but that still holds a run of failures, retires after this."""


def may_retire(breaker: Breaker, now: float, idle_s: float = IDLE_S) -> bool:
    """Whether forgetting ``breaker`` loses nothing that may still decide: never an open, commanded or counting one.

    Args:
        breaker: The circuit; its owner keeps others away from it meanwhile.
        now: Seconds on the breaker's clock.
        idle_s: How long nothing was recorded, in seconds.
    """
    quiet_s = now - breaker.last_seen
    return quiet_s >= idle_s and (breaker.is_idle(now) or (quiet_s >= STALE_S and breaker.is_stale(now)))
