"""CUSUM, the classical detector of a change (Page 1954), for calls that succeed or fail.

A failure adds ``ln(p1/p0)`` to a sum, and a success adds ``ln((1-p1)/(1-p0))``, which is negative. The sum never falls below
zero, and the circuit opens when it reaches ``h``. p0 is a healthy failure rate, p1 a broken one. Of all detectors with the same
mean number of calls between false alarms it is the fastest in the worst case (Lorden 1971, Moustakides 1986).

Both weights are whole multiples of one unit, within :data:`TOLERANCE` of the logarithms. The sum is then an integer: no rounding
adds up, and a snapshot is small. The run length is usually approximated by a discretised chain (Brook and Evans 1972). Here it is
exact, because the chain *is* the detector.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import CusumRule


TOLERANCE: Final = 0.002
"""Largest relative error of the rounded weights, if that is affordable."""
MOST_WORK: Final = 600_000
"""Multiplications that one solution may take. A finer unit would take more, so a coarser one is used."""
MOST_STEPS: Final = 400


class Detector(msgspec.Struct, frozen=True, gc=False):
    """A CUSUM in whole units.

    Attributes:
        up: Units that a failure adds.
        down: Units that a success subtracts.
        height: Units at which the circuit opens.
        unit: One unit in nats: ``height * unit`` is the h of the literature.
        calls_between_false_opens: Exact mean number of calls from zero to ``height`` at the tolerable rate.
    """

    up: int
    down: int
    height: int
    unit: float
    calls_between_false_opens: float


OFF: Final = Detector(up=0, down=0, height=1, unit=1.0, calls_between_false_opens=math.inf)
"""The detector of a policy without the rule: its sum stays zero."""


_KNOWN: Final[dict[tuple[float, float, float], Detector]] = {
    (0.1, 0.5, 1_000_000): Detector(
        up=41,
        down=15,
        height=306,
        unit=math.log((1 - 0.1) / (1 - 0.5)) / 15,
        calls_between_false_opens=1_101_674.7387474943,
    ),
    (0.3, 0.8, 1_000_000): Detector(
        up=18,
        down=23,
        height=228,
        unit=math.log(0.8 / 0.3) / 18,
        calls_between_false_opens=1_066_300.6011198587,
    ),
}
"""The solutions for the default rules of a fleet and of a process. To solve one takes longer than many programs run."""


@lru_cache(maxsize=256)
def solve(rule: CusumRule) -> Detector:
    """Return the :func:`solution` of ``rule``. Those of the defaults are known."""
    asked = (rule.tolerable_failure_rate, rule.broken_failure_rate, rule.calls_between_false_opens)
    return _KNOWN.get(asked) or solution(rule)


def solution(rule: CusumRule) -> Detector:
    """Return the detector with the lowest height whose run length at the tolerable rate is at least the wanted one."""
    up, down, unit = _weights(rule)
    lengths = enumerate(run_lengths(up, down, rule.tolerable_failure_rate))
    height, length = next(found for found in lengths if found[1] >= rule.calls_between_false_opens)
    return Detector(up=up, down=down, height=height, unit=unit, calls_between_false_opens=length)


def _weights(rule: CusumRule) -> tuple[int, int, float]:
    """Return whole numbers in the ratio of the two log-likelihood steps, and their unit in nats.

    They are the first within :data:`TOLERANCE`, else the closest that are affordable.
    """
    failure = math.log(rule.broken_failure_rate / rule.tolerable_failure_rate)
    success = math.log((1 - rule.tolerable_failure_rate) / (1 - rule.broken_failure_rate))
    small, large = sorted((failure, success))
    best: tuple[float, int, int] | None = None
    for steps in range(1, MOST_STEPS):
        unit = small / steps
        other = max(1, round(large / unit))
        states = math.log(rule.calls_between_false_opens) / unit + other  # h <= ln(run length), Lorden 1971
        if best is not None and states * steps * other > MOST_WORK:
            break
        error = abs(other * unit / large - 1)
        if best is None or error < best[0]:
            best = (error, steps, other)
        if error <= TOLERANCE and steps >= 4:  # fewer steps make few heights to choose from
            break
    assert best is not None
    _, steps, other = best
    up, down = (steps, other) if failure <= success else (other, steps)
    return up, down, small / steps


def run_lengths(up: int, down: int, rate: float) -> Iterator[float]:
    """Yield the mean run length of the walk 0..height-1 for the heights 0, 1, 2 …, by one elimination without pivoting.

    The equations ``L(i) = 1 + p L(i+up) + (1-p) L(max(0, i-down))`` of these heights are the leading minors of one band matrix
    ``A``. With ``A = LU``, ``L(0) = sum(z[i] * y[i])`` where ``Ly = 1`` and ``zU = e0``. So each further state takes one row, and
    adds one term to the sum.
    """
    upper: dict[int, dict[int, float]] = {}  # the rows of U that are still needed
    y: dict[int, float] = {}
    above: defaultdict[int, float] = defaultdict(
        float
    )  # of each column of U, the sum of the entries above the diagonal times z
    length = 0.0
    for i in count():
        yield length
        back = max(0, i - down)
        row = defaultdict(float, {i: 1.0})
        row[back] -= 1 - rate
        row[i + up] -= rate
        y[i] = 1.0
        for k in range(back, i):
            entry = row.pop(k, 0.0)
            if not entry:
                continue
            factor = entry / upper[k][k]
            for j, value in upper[k].items():
                if j > k:
                    row[j] -= factor * value
            y[i] -= factor * y[k]
        z = ((i == 0) - above.pop(i, 0.0)) / row[i]
        for j, entry in row.items():
            if j > i:
                above[j] += z * entry
        upper[i] = row
        upper.pop(i - down - 1, None)
        length += z * y[i]
