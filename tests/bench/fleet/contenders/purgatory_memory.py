"""purgatory, a breaker in each process."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import purgatory
from purgatory.domain import model

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.place import FAILURES, Contender, Place


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a new breaker for each tool."""
    factory = purgatory.SyncCircuitBreakerFactory(default_threshold=FAILURES, default_ttl=place.timing.wait_s)
    return lambda tool: lambda function: factory(tool)(function)()


def virtual_time(wall: Callable[[], float]) -> None:
    """Replace the module that it asks for the time."""
    model.time = SimpleNamespace(time=wall)


CONTENDER = Contender(
    name="purgatory, in memory",
    distribution="purgatory",
    shares="nothing",
    note="Five failures in a row. `default_ttl` is set, all else is default.",
    refusals=(model.OpenedState,),
    guards=guards,
    virtual_time=virtual_time,
)
