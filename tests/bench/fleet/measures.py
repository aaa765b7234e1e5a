"""What a trial shows, from its calls alone. No contender is asked what it believes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.fleet.agent import Call
from tests.bench.fleet.outages import Outage, Timing


@dataclass(frozen=True)
class Measures:
    """The measures of a trial. All are better when smaller.

    Attributes:
        until_refused_s: From the first call that failed until every process that sees the outage was refused once. Infinite if
            one never was.
        wasted: Calls that reached the broken tool and had no result in time.
        good_refused: Calls that were refused although they would have had a result in time.
        probes: Calls that reached the tool after the outage and before its first answer. None if the outage is not total, or
            if not all processes were refused.
        calls: All calls that the processes asked for.
    """

    until_refused_s: float
    wasted: int
    good_refused: int
    probes: int | None
    calls: int


def measure(calls: Sequence[Call], outage: Outage, timing: Timing, processes: int) -> Measures:
    """Return the measures of a trial."""
    seeing = {number for number in range(processes) if outage.affects(number)}
    during = [call for call in calls if timing.healthy_s <= call.at < timing.recovers_s and call.process in seeing]
    wasted = [call for call in during if call.reached and not call.good]
    until = _until_refused(during, seeing, min((call.at for call in wasted), default=math.inf))
    after = [call for call in calls if call.reached and call.at >= timing.recovers_s and call.process in seeing]
    answer = min((call.ended for call in after), default=math.inf)
    counts = outage.total and math.isfinite(until)
    return Measures(
        until_refused_s=until,
        wasted=len(wasted),
        good_refused=sum(not call.reached and call.good for call in calls),
        probes=sum(call.at <= answer for call in after) if counts else None,
        calls=len(calls),
    )


def _until_refused(during: Sequence[Call], seeing: set[int], began: float) -> float:
    refused: dict[int, float] = {}
    for call in during:
        if not call.reached and call.at >= began:
            refused[call.process] = min(call.at, refused.get(call.process, math.inf))
    return max(refused.values()) - began if set(refused) == seeing else math.inf
