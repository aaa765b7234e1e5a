"""pybreaker, a breaker in each process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo

import pybreaker

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.place import FAILURES, Contender, Place


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a new breaker for each tool."""
    return lambda tool: pybreaker.CircuitBreaker(fail_max=FAILURES, reset_timeout=place.timing.wait_s, name=tool).call


def virtual_time(wall: Callable[[], float]) -> None:
    """Replace the class that the module asks for the time."""

    class VirtualDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> VirtualDatetime:
            return cls.fromtimestamp(wall(), tz)

    pybreaker.datetime = VirtualDatetime


CONTENDER = Contender(
    name="pybreaker, in memory",
    distribution="pybreaker",
    shares="nothing",
    note="Five failures in a row. `reset_timeout` is set, all else is default.",
    refusals=(pybreaker.CircuitBreakerError,),
    guards=guards,
    virtual_time=virtual_time,
)
