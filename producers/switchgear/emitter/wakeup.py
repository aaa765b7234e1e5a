"""Wakeup: tells the background that events came. It lives in the background's loop, and dies with it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

LONGEST_S: Final = 1.0
"""A ring may be lost on its way, where a signal handler raises in the thread that rings: who waits looks by itself after this."""


class Wakeup:
    """Rung and heard in one loop. A new one rings: what came before it was there is to be looked at."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._rung.set()
        self._urgently = asyncio.Event()

    def ring(self, urgent: bool) -> None:
        """Events came, ``urgent`` ones perhaps."""
        self._rung.set()
        if urgent:
            self._urgently.set()

    def reset(self) -> None:
        """Hear only what rings from here on."""
        self._rung.clear()

    async def heard(self, limit_s: float | None) -> None:
        """Until it rings, at most ``limit_s`` and :data:`LONGEST_S` seconds."""
        await _within(LONGEST_S if limit_s is None else min(limit_s, LONGEST_S), self._rung)

    async def linger(self, limit_s: float) -> None:
        """Let more events come, for ``limit_s`` seconds, or until an urgent one does."""
        if limit_s > 0:
            await _within(limit_s, self._urgently)
        self._urgently.clear()


async def _within(limit_s: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()
