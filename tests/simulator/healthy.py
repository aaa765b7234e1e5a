"""How often a busy, healthy tool opens: the fleet's default breaker under 1,000 calls/s for a virtual day.

The breaker is the real one. :func:`feed_successes` counts a run of successes at once. A test compares the result, byte for byte, with
counting one by one. Nothing is sampled or extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.windows import TimeWindow
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy
from tests.simulator.invariants.broken import InvariantBrokenError

NAME: Final = "healthy-stays-closed"
CALLS_PER_S: Final = 1_000
STATED: Final = {0.01: 8.1e14, 0.02: 2.3e12, 0.05: 7.4e8, 0.10: 1.10e6, 0.15: 20_710.0}
"""Mean number of calls between false opens, by the share that fails: the exact solution for the detector of docs/breaker.md (41 up, 15 down,
306 high)."""
REPORTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Steady:
    """The opens at a steady share of failures."""

    failure_rate: float
    calls: int
    opens: int

    @property
    def expected(self) -> float:
        """The opens to expect in this many calls, by the stated rate."""
        return self.calls / STATED[self.failure_rate]

    @property
    def most(self) -> float:
        """The limit above which opens can't be chance: four standard deviations of a Poisson number, plus three for small numbers."""
        return self.expected + 4 * math.sqrt(self.expected) + 3

    @property
    def least(self) -> float:
        """The limit below which the stated rate can't be the detector's."""
        return self.expected - 4 * math.sqrt(self.expected) - 3


def feed_successes(breaker: Breaker, first: int, count: int) -> None:
    """Count calls ``first`` … ``first + count - 1`` as successes of a closed circuit, with the same result as one by one.

    Call ``i`` ends at second ``i / CALLS_PER_S``, in process ``i % REPORTERS``.
    """
    evidence, end = breaker._evidence, first + count
    window, limits = evidence.window, evidence.limits
    assert isinstance(window, TimeWindow)
    pane_calls = round(window.width * CALLS_PER_S)
    while first < end:
        calm = window.calls >= limits.minimum_calls and window.failed < limits.rate * window.calls
        if not calm or evidence.cusum >= limits.cusum.height:
            breaker.record_event(first / CALLS_PER_S, _by(first, ResultKind.SUCCESS), generation=None, lease_id=None)
            first += 1
            continue
        last = min(end, (first // pane_calls + 1) * pane_calls) - 1
        now, number = last / CALLS_PER_S, last - first + 1
        window.roll(now)
        window.newest[0] += number
        window.calls += number
        evidence.streak = 0
        if evidence.cusum:
            evidence.cusum_calls += min(number, math.ceil(evidence.cusum / limits.cusum.down))
            evidence.cusum = max(0, evidence.cusum - number * limits.cusum.down)
            evidence.counted_at = now
        for index in range(first, min(first + limits.minimum_reporters, last + 1)):
            evidence.add_caller(_name(index))
        breaker.clock = now
        breaker._total_calls += number
        first = last + 1


def steady(failure_rate: float, calls: int, rng: Random, policy: BreakerPolicy = FLEET_DEFAULT) -> Steady:
    """Make ``calls`` calls, which fail independently with probability ``failure_rate``. Reset the circuit whenever it opens."""
    breaker = Breaker("healthy", policy, 0.0)
    opens = done = 0
    scale = math.log1p(-failure_rate)
    while done < calls:
        run = min(int(math.log(1.0 - rng.random()) / scale), calls - done)
        feed_successes(breaker, done, run)
        done += run
        if done < calls:
            breaker.record_event(done / CALLS_PER_S, _by(done, ResultKind.FAILURE), generation=None, lease_id=None)
            done += 1
        if breaker.state != "closed":
            opens += 1
            breaker.command("reset", done / CALLS_PER_S, actor="simulator")
    return Steady(failure_rate, calls, opens)


def check(found: Iterable[Steady], again: str) -> str:
    """Check the numbers of opens, and return one line for all.

    Raises:
        InvariantBrokenError: The circuit opened more often or less often than stated.
    """
    words = []
    for one in found:
        if not one.least <= one.opens <= one.most:
            what = f"{one.opens} opens in {one.calls:,} calls at {one.failure_rate:.0%}; stated are {one.expected:.3g}"
            raise InvariantBrokenError(
                NAME, what, at_s=one.calls / CALLS_PER_S, circuit_id="healthy", history=[], again=again
            )
        words.append(f"{one.failure_rate:.0%}: {one.opens} opens in {one.calls:,} calls, {one.expected:.2g} stated")
    return f"{NAME}: held ({'; '.join(words)})"


_NAMES: Final = tuple(f"p{number}" for number in range(REPORTERS))
_FAILURES: Final = tuple(Result(ResultKind.FAILURE, reporter=name) for name in _NAMES)
_SUCCESSES: Final = tuple(Result(ResultKind.SUCCESS, reporter=name) for name in _NAMES)


def _name(index: int) -> str:
    return _NAMES[index % REPORTERS]


def _by(index: int, outcome: ResultKind) -> Result:
    return (_FAILURES if outcome is ResultKind.FAILURE else _SUCCESSES)[index % REPORTERS]
