"""Waiting for something that has no event: a thread, a process, a file or a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.support.limits import ANSWER_S


def until(condition: Callable[[], object], seconds: float = ANSWER_S, state: Callable[[], object] = lambda: "") -> None:
    """Wait until ``condition`` holds. Look every few milliseconds.

    Raises:
        AssertionError: It did not hold within ``seconds``. The message shows ``state()``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within the limit {state()}"
        time.sleep(0.005)


async def auntil(
    condition: Callable[[], object], seconds: float = ANSWER_S, state: Callable[[], object] = lambda: ""
) -> None:
    """Wait as :func:`until` does, in a coroutine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within the limit {state()}"
        await asyncio.sleep(0.005)


async def holds_within(condition: Callable[[], bool | Awaitable[bool]], limit_s: float, every_s: float = 0.05) -> bool:
    """Wait until ``condition`` holds. Return False if it does not hold within ``limit_s``."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while True:
        answer = condition()
        if await answer if isinstance(answer, Awaitable) else answer:
            return True
        if loop.time() > deadline:
            return False
        await asyncio.sleep(every_s)
