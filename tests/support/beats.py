"""How often others have their turn in the event loop while something runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def beats_during(work: Awaitable[object]) -> int:
    """Await ``work``, and return how often another task had its turn meanwhile."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    beating = asyncio.create_task(beat())
    try:
        await work
    finally:
        beating.cancel()
    return beats
