"""Tasks that run beside the one that starts them. Their owner keeps them, because the event loop alone may drop them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Coroutine
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


async def until_stopped(*works: Awaitable[None], limit_s: float) -> None:
    """Work until one of the works has ended, or until SIGINT, SIGTERM or SIGHUP. Then cancel the others. Raise what failed.

    Args:
        works: What the process does.
        limit_s: The longest wait for the end of those that are cancelled.
    """
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    tasks = [asyncio.ensure_future(each) for each in (*works, stopped.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=limit_s)
