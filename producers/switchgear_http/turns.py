"""Long work of requests takes turns on the event loop, so that no request holds it for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")

SLICE_S: Final = 0.005
"""How long a request works before others go on."""
_ROUNDS: Final = 4
"""Rounds of the loop that others get after a slice: from the socket to its task, an answer needs several."""
_queues: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()


class Turn:
    """The share of one request in the time of the event loop.

    Work that fits in one slice never waits. Longer work waits in a queue after each slice: of all long requests one goes on at a time,
    and everything else that is ready goes first. So work in steps, and call :meth:`pause` after each step.
    """

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_S

    async def pause(self) -> None:
        """Let others go on if the slice is over."""
        if time.perf_counter() < self._until:
            return
        async with _queue():
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
        self._until = time.perf_counter() + SLICE_S

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a step that is too long for a slice. It runs in a thread, and only one such thread runs at a time.

        A step holds the interpreter while it is in one call of a C function, so that call must be bounded all the same.
        """
        async with _queue():
            found = await asyncio.to_thread(work, *args, **kwargs)
        self._until = time.perf_counter() + SLICE_S
        return found


def _queue() -> asyncio.Lock:
    return _queues.setdefault(asyncio.get_running_loop(), asyncio.Lock())
