"""Means over seeds with intervals. A seed is a whole run, so seeds are drawn again, not tasks: tasks of one run share an outage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

DRAWS: Final = 1_000
TAIL: Final = 0.025

Parts = tuple[float, float]
"""A sum and what it is divided by."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 0) -> str:
        """Return it as in the tables. One run has no interval."""
        value = f"{self.value:,.{digits}f}"
        if self.low == self.high:
            return value
        return f"{value} ({self.low:,.{digits}f} to {self.high:,.{digits}f})"


def mean(runs: Sequence[Parts]) -> Estimate:
    """Return the sum of all runs by what it is divided by."""
    return _drawn(len(runs), lambda places: _quotient(runs, places))


def ratio(runs: Sequence[Parts], base: Sequence[Parts]) -> Estimate:
    """Return the ratio of two means. The runs are pairs: the same seed in both."""
    return _drawn(len(runs), lambda places: _divided(_quotient(runs, places), _quotient(base, places)))


def difference(runs: Sequence[Parts], base: Sequence[Parts]) -> Estimate:
    """Return the difference of two means. The runs are pairs."""
    return _drawn(len(runs), lambda places: _quotient(runs, places) - _quotient(base, places))


def _drawn(number: int, statistic: Callable[[Sequence[int]], float]) -> Estimate:
    rng = Random(0)
    drawn = sorted(statistic([rng.randrange(number) for _ in range(number)]) for _ in range(DRAWS))
    return Estimate(statistic(range(number)), drawn[int(TAIL * DRAWS)], drawn[int((1 - TAIL) * DRAWS) - 1])


def _quotient(runs: Sequence[Parts], places: Sequence[int]) -> float:
    return _divided(sum(runs[place][0] for place in places), sum(runs[place][1] for place in places))


def _divided(one: float, by: float) -> float:
    return one / by if by else 0.0
