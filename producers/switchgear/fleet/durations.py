"""How long a tool's calls take, and after how long one is overdue. Exact, and the same on every machine."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta

from switchgear.breaker.values import LEAST_OVERDUE_MS, Count
from switchgear_schemas import BreakerPolicy

_EDGES: Final = (0.5946035575013605, 0.7071067811865476, 0.8408964152537145, 1.0)
"""Upper edges of the buckets of a doubling: powers of two to the quarter."""
MOST_BUCKET: Final = 123
"""The bucket of twelve days and longer."""
ENOUGH: Final = 100
"""Fewer calls have no 99th percentile."""
HALVED_AT: Final = 2_048
"""With so many calls all counts are halved, so that old ones fade."""
FACTOR: Final = 3.0
"""A call is overdue after so many times the 99th percentile."""
STEADY: Final = 1.4
"""What is learned must change by this factor, about two buckets, to be published again."""

Bucket = Annotated[int, Meta(ge=0, le=MOST_BUCKET)]


def upper_ms(bucket: int) -> float:
    """Return the longest duration of a bucket, in milliseconds."""
    return max(1.0, math.ldexp(_EDGES[bucket % 4], bucket // 4))


_UPPER_MS: Final = tuple(map(upper_ms, range(MOST_BUCKET)))
"""Of each bucket but the last, which has no end."""


def bucket_of(ms: float) -> int:
    """Return the bucket of a duration: four in each doubling from one millisecond on."""
    return bisect_left(_UPPER_MS, ms)


class Durations:
    """How many calls of each bucket there were, the newest ones with more weight.

    Attributes:
        counts: Calls by bucket. A row keeps it as it is.
        total: Their sum.
    """

    __slots__ = ("counts", "total")

    def __init__(self, counts: dict[Bucket, Count]) -> None:
        self.counts = counts
        self.total = sum(counts.values())

    def add(self, ms: float) -> None:
        """Count a call that took ``ms`` milliseconds."""
        self.add_all((ms,))

    def add_all(self, durations: Iterable[float]) -> None:
        """Count calls, one after the other."""
        counts = self.counts
        for ms in durations:
            bucket = bisect_left(_UPPER_MS, ms)
            counts[bucket] = counts.get(bucket, 0) + 1
            self.total += 1
            if self.total >= HALVED_AT:
                halved = {each: number // 2 for each, number in counts.items() if number > 1}
                counts.clear()
                counts.update(halved)
                self.total = sum(halved.values())

    def p99_ms(self) -> float | None:
        """Return how long 99 of 100 calls take at most, to the edge of a bucket. None if there are fewer than :data:`ENOUGH`."""
        if self.total < ENOUGH:
            return None
        longer = 0
        for bucket in sorted(self.counts, reverse=True):
            longer += self.counts[bucket]
            if longer * 100 > self.total:
                return upper_ms(bucket)
        return None


def overdue_after_ms(policy: BreakerPolicy, durations: Durations) -> float | None:
    """Return after how many milliseconds a call is overdue by what the fleet knows.

    It is the policy's threshold for slow calls. Without one it is :data:`FACTOR` times the 99th percentile, and at least five
    seconds. None if that is no news: each process takes five seconds, and no rule counts slow calls.
    """
    if policy.slow_call_duration_threshold_ms is not None:
        return float(policy.slow_call_duration_threshold_ms)
    p99 = durations.p99_ms()
    learned = LEAST_OVERDUE_MS if p99 is None else max(LEAST_OVERDUE_MS, FACTOR * p99)
    return None if learned == LEAST_OVERDUE_MS and policy.slow_call_rate_threshold is None else learned


def is_news(policy: BreakerPolicy, known: float | None, found: float | None) -> bool:
    """Return whether processes that know the limit ``known`` must learn of ``found``."""
    if known is None or found is None or policy.slow_call_duration_threshold_ms is not None:
        return known != found
    return not known / STEADY < found < known * STEADY
