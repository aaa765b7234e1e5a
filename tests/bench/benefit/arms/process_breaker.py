"""A breaker in each process: the library ``circuitbreaker`` with its defaults. Its code runs on the time of the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.bench.benefit.arms.arm import Arm, Fleet, Make, RefusedError, ToolCaller


class OwnBreakers(ToolCaller):
    """A breaker for each tool, in this process alone."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._guarded: dict[str, Any] = {}

    async def call(self, tool: str, make: Make) -> Any:
        guarded = self._guarded.get(tool)
        if guarded is None:

            async def made(make: Make) -> Any:
                return await make(tool)

            guarded = self._guarded[tool] = self._peer.CircuitBreaker(name=tool)(made)
        try:
            return await guarded(make)
        except self._peer.CircuitBreakerError as error:
            raise RefusedError(str(error), error._circuit_breaker.open_remaining) from None


class OwnBreakersFleet(Fleet):
    def __init__(self) -> None:
        import circuitbreaker  # noqa: PLC0415 - of the extra "bench", which may be absent

        circuitbreaker.monotonic = asyncio.get_running_loop().time
        self._peer = circuitbreaker

    def process(self, number: int) -> ToolCaller:
        return OwnBreakers(self._peer)


ARM = Arm(
    "per-process breaker",
    "circuitbreaker 2.1.3 with its defaults, one for each tool and process: five failures in a row, then 30 s",
    3,
    OwnBreakersFleet,
    needs="circuitbreaker",
)
