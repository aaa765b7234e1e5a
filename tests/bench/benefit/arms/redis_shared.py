"""A breaker whose state and counts all processes share: the library ``purgatory`` with its defaults.

Redis is stood in for by purgatory's store in memory, which all processes share, and a round trip before and after each call. The code
runs on the time of the event loop.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final

from tests.bench.benefit.arms.arm import Arm, Fleet, Make, RefusedError, ToolCaller

ROUND_TRIP_S: Final = 0.001


class SharedBreakers(ToolCaller):
    """A process with the shared breakers."""

    def __init__(self, factory: Any, opened: type[Exception]) -> None:
        self._factory = factory
        self._opened = opened

    async def call(self, tool: str, make: Make) -> Any:
        await asyncio.sleep(ROUND_TRIP_S)
        breaker = await self._factory.get_breaker(tool)
        try:
            async with breaker:
                return await make(tool)
        except self._opened as error:
            raise RefusedError(str(error)) from None
        finally:
            await asyncio.sleep(ROUND_TRIP_S)


class SharedBreakersFleet(Fleet):
    def __init__(self) -> None:
        from purgatory import AsyncCircuitBreakerFactory  # noqa: PLC0415 - of the extra "bench", which may be absent
        from purgatory.domain import model  # noqa: PLC0415 - as above

        model.time = SimpleNamespace(time=asyncio.get_running_loop().time)
        self._factory = AsyncCircuitBreakerFactory()
        self._opened = model.OpenedState

    def process(self, number: int) -> ToolCaller:
        return SharedBreakers(self._factory, self._opened)


ARM = Arm(
    "Redis-shared",
    "purgatory 3.0.1 with its defaults, its state in one store for all: five failures in a row, then 30 s",
    5,
    SharedBreakersFleet,
    needs="purgatory",
)
