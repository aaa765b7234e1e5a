"""pybreaker with its CircuitRedisStorage: state and count of failures are in Redis."""

from __future__ import annotations

from collections.abc import Callable

import pybreaker

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.contenders.pybreaker_memory import virtual_time
from tests.bench.fleet.place import FAILURES, Contender, Place


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a breaker for each tool, over one client of Redis for each."""

    def guard(tool: str) -> Guard:
        storage = pybreaker.CircuitRedisStorage(pybreaker.STATE_CLOSED, place.redis(), namespace=place.prefix + tool)
        breaker = pybreaker.CircuitBreaker(
            fail_max=FAILURES, reset_timeout=place.timing.wait_s, state_storage=storage, name=tool
        )
        return breaker.call

    return guard


CONTENDER = Contender(
    name="pybreaker, Redis",
    distribution="pybreaker",
    shares="state and count, read at each call",
    note="Five failures in a row of all processes. Any success sets the count to zero. Its times are whole seconds.",
    refusals=(pybreaker.CircuitBreakerError,),
    guards=guards,
    needs="redis",
    virtual_time=virtual_time,
)
