"""What counts as a number where a user gives one: True and False are none."""

from __future__ import annotations

from typing import TypeGuard


def is_whole(value: object) -> TypeGuard[int]:
    """A whole number, of whatever sign."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """A whole number or one with a fraction, also NaN and the infinities: a range is the caller's to ask for."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
