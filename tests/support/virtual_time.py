"""Coroutines whose sleeps and time limits take no real time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own. When no task can go on, the clock goes on to the next timer.

    It is for coroutines alone: it doesn't wait for threads, processes or sockets while a timer is left.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()

    def time(self) -> float:
        """Return the seconds that have passed for the coroutines."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            first = self._scheduled[0]  # of a heap
            if first.cancelled():
                left = (each for each in self._scheduled if not each.cancelled())
                first = min(left, key=asyncio.TimerHandle.when, default=first)
            if not first.cancelled():
                self._now = max(self._now, first.when())
        super()._run_once()


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test in a :class:`VirtualLoop`. Its fixtures must need no event loop."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
