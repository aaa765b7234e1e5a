"""The retries of an agent framework: LangChain's ``ToolRetryMiddleware`` with its defaults, made by tenacity."""

from __future__ import annotations

import asyncio
from typing import Any

import tenacity

from tests.bench.benefit.arms.arm import Arm, Fleet, Make, RefusedError, ToolCaller

RETRIES = 2
FIRST_WAIT_S = 1.0
FACTOR = 2.0
LONGEST_WAIT_S = 60.0


class Retrying(ToolCaller):
    """Calls again after any error, but not after a refusal: twice, after one second and after two.

    Args:
        inner: Makes each call.
    """

    def __init__(self, inner: ToolCaller | None = None) -> None:
        self._inner = inner or ToolCaller()

    async def call(self, tool: str, make: Make) -> Any:
        attempts = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(1 + RETRIES),
            wait=tenacity.wait_exponential(multiplier=FIRST_WAIT_S, exp_base=FACTOR, max=LONGEST_WAIT_S),
            retry=tenacity.retry_if_not_exception_type((RefusedError, asyncio.CancelledError)),
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                return await self._inner.call(tool, make)
        raise AssertionError("tenacity returns or raises")


class RetryingFleet(Fleet):
    def process(self, number: int) -> ToolCaller:
        return Retrying()


ARM = Arm(
    "framework retries",
    "LangChain's ToolRetryMiddleware 1.5 with its defaults: two retries of any error",
    1,
    RetryingFleet,
)
