"""The bounded buffer between the calls and the background thread, and what wakes that thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import Any, Final

from switchgear.emitter.event import Event

LONGEST_WAIT_S: Final = 1.0
"""A wake-up can get lost, if a signal handler raises in the thread that sends it. The background looks by itself after this time."""

Succeeded = tuple[str, float, float, int | None, int | None]
"""A plain success of the guard: tool, start and end by ``time.monotonic``, generation, and that of the tool's family."""
Item = tuple[Event | dict[str, Any], float] | Succeeded
"""An event and the time it ended, in seconds since 1970; or a plain success."""


def own(fields: dict[str, Any]) -> dict[str, Any]:
    """Copy ``fields``, because the caller may fill the same dict again before the background encodes it."""
    copied = dict(fields)
    metadata = copied.get("metadata")
    if isinstance(metadata, dict):
        copied["metadata"] = dict(metadata)
    return copied


class Buffer:
    """A queue of at most ``limit`` events. Any thread appends, one thread takes.

    A full buffer drops its oldest event: while Kafka is down the newest events say how the tools are now. ``items`` may be
    appended to directly, without a lock, while it is shorter than ``limit``.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.items: deque[Item] = deque()
        self.clear()

    def make_room(self) -> None:
        """Drop the oldest event if the buffer is full."""
        with self._lock:
            if len(self.items) >= self.limit:
                self.items.popleft()
                self.dropped += 1

    def take(self, most: int) -> list[Item]:
        """Remove and return up to ``most`` of the oldest events. Only one thread may take."""
        items = self.items
        with self._lock:  # no other thread takes meanwhile: as many as there are now can be taken
            taken = [items.popleft() for _ in range(min(most, len(items)))]
            self._taken += len(taken)
        return taken

    def clear(self) -> None:
        """Forget the events and the counts. In a forked child they are the parent's."""
        self.items.clear()
        self._lock = threading.RLock()  # a signal handler may read the counts, or close, during any of these
        self.dropped = 0
        """Events dropped since the start."""
        self._taken = 0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def left(self) -> int:
        """Events taken or dropped since the start."""
        return self._taken + self.dropped

    @property
    def accepted(self) -> int:
        """Events appended since the start. It never decreases, or a flush could end too early."""
        with self._lock:
            return self._taken + self.dropped + len(self.items)


class Wakeup:
    """Wakes the background when events come. It belongs to one event loop, and starts awake, to look at earlier events."""

    def __init__(self) -> None:
        self._set = asyncio.Event()
        self._set.set()
        self._urgent = asyncio.Event()

    def set(self, urgent: bool) -> None:
        """Note that events came, and whether one is urgent."""
        self._set.set()
        if urgent:
            self._urgent.set()

    def clear(self) -> None:
        """Forget earlier wake-ups."""
        self._set.clear()

    async def wait(self, limit_s: float) -> None:
        """Wait for a wake-up, at most ``limit_s`` and :data:`LONGEST_WAIT_S` seconds."""
        await _within(min(limit_s, LONGEST_WAIT_S), self._set)

    async def linger(self, limit_s: float) -> None:
        """Wait ``limit_s`` seconds for more events, or until an urgent one comes."""
        if limit_s > 0:
            await _within(limit_s, self._urgent)
        self._urgent.clear()


async def _within(limit_s: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()
