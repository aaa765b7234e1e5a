"""Check numbers that a user gives. True and False aren't numbers here."""

from __future__ import annotations

from typing import TypeGuard

from switchgear_schemas.enums import LONGEST_WAIT_S, SHORTEST_WAIT_S


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is an integer or a float. NaN and infinity are: check the range too."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def possible_wait(seconds: float) -> float:
    """Return the nearest wait that a policy allows: at least a nanosecond, at most a year."""
    return min(max(seconds, SHORTEST_WAIT_S), LONGEST_WAIT_S)
