"""When a call is overdue, and what it means that its caller gives up then."""

from __future__ import annotations

from typing import Final

from switchgear.breaker.values import LEAST_OVERDUE_MS
from switchgear.classify.classification import Classification

_SAYS_NOTHING: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""The program ends, or a coroutine or a generator is dropped: nobody gave up waiting."""


def overdue_after_s(slow_ms: float | None, fleet_ms: float | None = None) -> float:
    """Return after how many seconds a call is overdue: by the process's own policy, else by the fleet, else five.

    Args:
        slow_ms: The policy's ``slow_call_duration_threshold_ms``.
        fleet_ms: What the record of the fleet's circuit says. None if it says nothing.
    """
    known_ms = fleet_ms if slow_ms is None else slow_ms
    return (LEAST_OVERDUE_MS if known_ms is None else known_ms) / 1000


def given_up(error: object, found: Classification, waited_ms: float, limit_ms: float) -> Classification:
    """Return the class of a failed call. A cancelled one is a timeout if its caller had waited too long.

    Args:
        error: How the call ended. A text comes from somebody who was told that it was cancelled, such as a person.
        found: The class by the rules.
        waited_ms: How long the caller had waited for the tool.
        limit_ms: After how long a call is overdue.
    """
    if found.error_class != "cancelled" or not isinstance(error, BaseException) or isinstance(error, _SAYS_NOTHING):
        return found
    return Classification("timeout") if waited_ms >= limit_ms else found
