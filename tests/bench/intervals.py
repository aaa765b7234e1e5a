"""Medians, spreads, and ratios with intervals by order statistics, which assume nothing about a distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

CONFIDENCE: Final = 0.9


@dataclass(frozen=True)
class Interval:
    """A median with an interval.

    Attributes:
        median: Of the values.
        low: The lower end.
        high: The upper end.
        coverage: The probability that such an interval contains the true median.
        values: How many there were.
    """

    median: float
    low: float
    high: float
    coverage: float
    values: int


def coverage(values: int, rank: int) -> float:
    """Return the probability that the median lies between the ``rank``-th smallest and the ``rank``-th largest value.

    A value is below the median with probability one half, so the number of them is binomial.
    """
    below: int = sum(math.comb(values, count) for count in range(rank))
    return 1 - 2 * below / 2**values


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the median with the narrowest interval of at least this confidence.

    With few values there is none: then it is from the smallest to the largest, with the coverage that it has.
    """
    ordered, count = sorted(values), len(values)
    rank = 1
    while rank + 1 <= (count + 1) // 2 and coverage(count, rank + 1) >= confidence:
        rank += 1
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank], coverage(count, rank), count)


def ratio(value: float, base: float) -> float:
    """Return ``value / base``: 1 if both are zero or both are infinite, infinite if only the base is zero."""
    if value == base:
        return 1.0
    if base == 0:
        return math.inf
    return value / base


def paired_ratios(values: Sequence[float], bases: Sequence[float]) -> Interval:
    """Return the interval of the ratios of each round. The two contenders of a round ran one after the other."""
    return interval([ratio(value, base) for value, base in zip(values, bases, strict=True)])


def number(value: float) -> str:
    """Return a number with three digits, or in words."""
    if math.isinf(value):
        return "never"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_spread(values: Sequence[float]) -> str:
    """Return the median with the smallest and largest value in brackets."""
    low, high = min(values), max(values)
    return number(median(values)) if low == high else f"{number(median(values))} ({number(low)} to {number(high)})"


def times(found: Interval) -> str:
    """Return a ratio with its interval, such as ``4.2x (3.9 to 4.8)``."""
    words = ["∞" if math.isinf(value) else number(value) for value in (found.median, found.low, found.high)]
    return f"{words[0]}x ({words[1]} to {words[2]})"
