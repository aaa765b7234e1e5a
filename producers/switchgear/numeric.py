"""What counts as a number where a user gives one: True and False are none."""

from __future__ import annotations

from typing import TypeGuard

from switchgear_schemas.enums import LONGEST_WAIT_S, SHORTEST_WAIT_S


def is_whole(value: object) -> TypeGuard[int]:
    """A whole number, of whatever sign."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """A whole number or one with a fraction, also NaN and the infinities: a range is the caller's to ask for."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def possible_wait(seconds: float) -> float:
    """The nearest wait that a policy may have: zero is a nanosecond, and more than a year is a year."""
    return min(max(seconds, SHORTEST_WAIT_S), LONGEST_WAIT_S)
