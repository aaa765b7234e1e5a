"""Estimate from a history when a tool was down. No policy takes part in it.

The calls of a tool are put into bins of equally many. A call is bad if it failed, or took longer than 99 of 100 of the tool's usual
calls. PELT (Killick, Fearnhead and Eckley 2012, in ``ruptures``) finds the bins at which the share of bad calls changes. The arcsine
of the root of a share has about the same variance, 1 / (4 n), whatever the share, so one penalty fits all levels. A segment with a
large share of bad calls is an outage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import ruptures

from switchgear_cli.tune.calls import PastCall

if TYPE_CHECKING:
    from numpy.typing import NDArray

BIN_CALLS: Final = 10
"""Calls per bin, unless that makes more than :data:`MOST_BINS`."""
MOST_BINS: Final = 5_000
FEWEST_BINS: Final = 4
PENALTY: Final = 3.0
"""Of a change, in log(bins) times the variance of a bin. The BIC has 2; more finds fewer changes."""
DOWN_SHARE: Final = 0.2
"""Least share of bad calls in an outage."""
DOWN_FACTOR: Final = 3.0
"""Least ratio of that share to the usual one: a tool that always fails now and then is not down."""
FEWEST_BAD: Final = 5
SHORTEST_S: Final = 5.0
"""A circuit is of no use in a shorter outage."""
BLOCK_CALLS: Final = 100
MOST_BLOCKS: Final = 50
FEWEST_TIMED: Final = 200
"""With fewer calls, no duration of a tool counts as slow."""


class Usual(NamedTuple):
    """What is usual for a tool: medians over blocks of calls, so an outage of less than half of the calls changes little.

    Attributes:
        median_ms: The median duration.
        slow_ms: The 99th percentile of the duration. Infinite if there are too few calls to tell.
    """

    median_ms: float
    slow_ms: float


class Outage(NamedTuple):
    """A time in which a tool was down, in seconds since 1970."""

    tool: str
    start: float
    end: float


def usual_of(calls: Sequence[PastCall]) -> Usual:
    """Return what is usual for the tool of these calls."""
    durations = np.array([call.duration_ms for call in calls])
    if not len(durations):
        return Usual(0.0, float("inf"))
    blocks = np.array_split(durations, max(1, min(MOST_BLOCKS, len(durations) // BLOCK_CALLS)))
    median = float(np.median([np.median(block) for block in blocks]))
    if len(durations) < FEWEST_TIMED:
        return Usual(median, float("inf"))
    return Usual(median, float(np.median([np.percentile(block, 99) for block in blocks])))


def estimate_outages(calls: Sequence[PastCall], failed: Sequence[bool], usual: Usual) -> list[Outage]:
    """Return the outages of one tool.

    Args:
        calls: The calls of the tool, in order.
        failed: Whether each of them failed.
        usual: What is usual for the tool.
    """
    bad = np.array(failed, dtype=bool) | (np.array([call.duration_ms for call in calls]) > usual.slow_ms)
    size = max(BIN_CALLS, -(-len(calls) // MOST_BINS))
    bins = len(calls) // size
    if bins < FEWEST_BINS or bad.sum() < FEWEST_BAD:
        return []
    edges = [place * size for place in range(bins)] + [len(calls)]
    shares = np.add.reduceat(bad, edges[:-1]) / np.diff(edges)
    floor = max(DOWN_SHARE, DOWN_FACTOR * float(np.median(shares)))
    found: list[tuple[int, int]] = []
    for first, last in _segments(shares, size):
        begin, end = edges[first], edges[last]
        if bad[begin:end].mean() < floor:
            continue
        if found and found[-1][1] == begin:
            begin = found.pop()[0]
        found.append((begin, end))
    parts = (_outage(calls, bad, begin, end, floor) for begin, end in found)
    return [outage for outage in parts if outage is not None]


def _segments(shares: NDArray[np.float64], size: int) -> Iterable[tuple[int, int]]:
    """Return the first bin of each segment between two changes, and the bin after its last."""
    signal = np.arcsin(np.sqrt(shares)).reshape(-1, 1)
    penalty = PENALTY * np.log(len(shares)) / (4 * size)
    ends = [int(end) for end in ruptures.KernelCPD(kernel="linear", min_size=1).fit(signal).predict(pen=penalty)]
    return zip([0, *ends[:-1]], ends, strict=True)


def _outage(calls: Sequence[PastCall], bad: NDArray[np.bool_], begin: int, end: int, floor: float) -> Outage | None:
    """Return the outage within a segment: from the first to the last call of its worst part. None if it is short or has few bad calls.

    The worst part has the largest sum of bad calls above what ``floor`` allows, so a stray bad call at an edge doesn't belong to it.
    """
    sums = np.concatenate(([0.0], np.cumsum(bad[begin:end] - floor)))
    gains = sums - np.minimum.accumulate(sums)
    last = int(np.argmax(gains))
    first = int(np.argmin(sums[: last + 1]))
    outage = Outage(calls[0].event.tool_name, calls[begin + first].began_at, calls[begin + last - 1].ended_at)
    enough = bad[begin + first : begin + last].sum() >= FEWEST_BAD and outage.end - outage.start >= SHORTEST_S
    return outage if enough else None


class Calendar:
    """Finds the outage that a call was in. Outages of one tool don't overlap.

    Attributes:
        outages: All of them, by tool and start.
    """

    def __init__(self, outages: Iterable[Outage]) -> None:
        self.outages = sorted(outages)
        self._places: dict[str, list[int]] = {}
        for place, outage in enumerate(self.outages):
            self._places.setdefault(outage.tool, []).append(place)
        self._starts = {tool: [self.outages[at].start for at in places] for tool, places in self._places.items()}

    def find(self, call: PastCall) -> int | None:
        """Return the number of the outage in which some part of the call was, or None."""
        tool = call.event.tool_name
        before = bisect_right(self._starts.get(tool, ()), call.ended_at)
        if not before:
            return None
        place = self._places[tool][before - 1]
        return place if call.began_at <= self.outages[place].end else None
