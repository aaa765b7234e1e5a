"""Tasks that run beside the one that starts them. Their owner keeps them, because the event loop alone may drop them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Tasks:
    """The tasks of one owner. A task that has ended is forgotten."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the running event loop. Return its task."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Cancel those that run."""
        for task in list(self._running):
            task.cancel()

    async def end(self, limit_s: float) -> None:
        """Cancel those that run, and wait for their end. Those that don't end within ``limit_s`` are left alone."""
        self.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=limit_s)
