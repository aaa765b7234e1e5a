"""Waiting for what has no event to wait for: processes, files, servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], bool | Awaitable[bool]], limit_s: float, every_s: float = 0.05) -> bool:
    """Ask again and again; False where ``limit_s`` seconds did not suffice."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while True:
        answer = condition()
        if await answer if isinstance(answer, Awaitable) else answer:
            return True
        if loop.time() > deadline:
            return False
        await asyncio.sleep(every_s)
