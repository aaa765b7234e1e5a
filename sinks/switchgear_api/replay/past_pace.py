"""What a kept rate limit would have done with the calls of a tool: which would have waited, and which would have been refused."""

from __future__ import annotations

import msgspec

from switchgear.fleet.log import observed
from switchgear.pacing.limit import Limit
from switchgear.pacing.pacing import stated_limit
from switchgear.pacing.share import Bucket, credit_of
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.wire import Execution


class Paced(msgspec.Struct):
    """The totals of one replay, of the tools whose policy keeps their limit.

    The rate is learned from the history, so as much is refused there as it was then. ``limited`` are the calls that the tools refused as
    too many. ``refused`` would not have been made, ``refused_limited`` of them are among those. ``waited`` would have been made later,
    by ``seconds_waited`` in all.
    """

    calls: int = 0
    limited: int = 0
    refused: int = 0
    refused_limited: int = 0
    waited: int = 0
    seconds_waited: float = 0.0


class PastPace:
    """The pace of one tool. All its calls are one process's: its share is the whole."""

    def __init__(self, policy: BreakerPolicy, now: float) -> None:
        self._policy = policy
        self._stated = stated_limit(policy)
        self._limit = Limit(now, now)
        self._limit.advance(now, self._stated)
        self._bucket: Bucket | None = None

    def learn(self, call: Execution, ended_at: float) -> None:
        """Learn from a call as it was."""
        found = observed(call)
        if found is not None:
            self._limit.add(ended_at, self._stated, found)

    def wait_s(self, began_at: float) -> float | None:
        """Return how long a call would have waited that began at this instant. None: it would have been refused."""
        rate, limit = self._limit.rate, self._limit
        if rate is None:
            return 0.0
        credit = credit_of(rate, rate, 1, rate, limit.period_s, recent=True)
        bucket = self._bucket
        if bucket is None:
            bucket = self._bucket = Bucket(began_at, rate, credit)
        bucket.set_rate(began_at, rate, credit, limit.paused_until)
        place = bucket.take(began_at)
        wait_s = bucket.wait_s(began_at, place)
        if wait_s > self._policy.pace_wait_s:
            bucket.leave(place)
            return None
        return wait_s
