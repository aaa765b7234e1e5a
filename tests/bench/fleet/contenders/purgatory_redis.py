"""purgatory with its Redis repository: state and count of failures are in Redis.

Its repository for plain functions makes a client for coroutines (version 3.0.1) and can't work, so this is the one for coroutines, with
an event loop in each process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import purgatory
from purgatory.domain import model

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.contenders.purgatory_memory import virtual_time
from tests.bench.fleet.place import FAILURES, Contender, Place

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a breaker for each tool, with its own event loop and client."""

    def guard(tool: str) -> Guard:
        unit = purgatory.AsyncRedisUnitOfWork(place.redis_url or "redis://virtual")
        run: Run
        if place.world is None:
            run = asyncio.new_event_loop().run_until_complete
        else:
            from tests.bench.fleet.virtual_redis import AsyncVirtualRedis  # noqa: PLC0415 - needs greenlet

            unit.contexts.redis = AsyncVirtualRedis(place.world)
            run = _without_a_loop
        factory = purgatory.AsyncCircuitBreakerFactory(
            default_threshold=FAILURES, default_ttl=place.timing.wait_s, uow=unit
        )
        run(factory.initialize())

        def call(function: Callable[[], Any]) -> Any:
            async def awaited() -> Any:
                return function()

            return run(factory(place.prefix + tool)(awaited)())

        return call

    return guard


def _without_a_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for an event loop")


CONTENDER = Contender(
    name="purgatory, Redis",
    distribution="purgatory",
    shares="state and count, read at each call",
    note="Five failures in a row of all processes. Its repository for plain functions can't work, so coroutines are used.",
    refusals=(model.OpenedState,),
    guards=guards,
    needs="redis",
    virtual_time=virtual_time,
)
