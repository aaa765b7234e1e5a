"""The bounded buffer between the calls and the background thread.

Full, it gives up its *oldest* event: while Kafka is away the newest say how the tools are now, and an event that arrives
long after it was recorded is stored but no longer counted. Every event given up is counted, and logged in summary.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any, Final

from switchgear.emitter.event import Event

Succeeded = tuple[str, float, float, int | None]
"""A plain success, before anything is made of it: tool, start and end by ``time.monotonic``, generation."""
Item = tuple[Event | dict[str, Any], float] | Succeeded
"""An event and the time it ended, in seconds since 1970; or a success of the guard."""


def own(fields: dict[str, Any]) -> dict[str, Any]:
    """``fields`` as they are now: the caller may fill the same dict again before the background has encoded it."""
    try:
        copied = {**fields}
        metadata = copied.get("metadata")
        if isinstance(metadata, dict):
            copied["metadata"] = {**metadata}
    except Exception:  # noqa: BLE001 - a user's own kind of dict must not end the call; who encodes it tells of it
        return fields
    return copied


class Buffer:
    """Appended to by any thread without a lock, taken from by one. ``limit`` events at most (give or take the threads)."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"the buffer must hold at least 1 event, got {limit}")
        self.limit = limit
        self.items: deque[Item] = deque()
        self._lock = threading.RLock()  # a signal handler may ask for the counts, or close, amid any of these
        self._dropped = 0
        self._taken = 0

    def append(self, item: Item) -> None:
        """Add one; the oldest goes where there is no room."""
        if len(self.items) >= self.limit:
            self.make_room()
        self.items.append(item)

    def make_room(self) -> None:
        """Give up the oldest event where the buffer is full."""
        with self._lock:
            if len(self.items) >= self.limit:
                self.items.popleft()
                self._dropped += 1

    def take(self, most: int) -> list[Item]:
        """Up to ``most`` of the oldest events. One thread alone takes."""
        items = self.items
        with self._lock:  # nobody else takes meanwhile: as many as there are now can be taken
            taken = [items.popleft() for _ in range(min(most, len(items)))]
            self._taken += len(taken)
        return taken

    def clear(self) -> None:
        """Forget everything, counts too: in a forked child these are the parent's."""
        self.items.clear()
        self._lock = threading.RLock()
        self._dropped = self._taken = 0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def dropped(self) -> int:
        """Events given up so far."""
        return self._dropped

    @property
    def left(self) -> int:
        """Events that are not here any more: taken, or given up."""
        return self._taken + self._dropped

    @property
    def accepted(self) -> int:
        """Events appended so far; never less, for who waits until all are sent would go too early."""
        with self._lock:
            return self._taken + self._dropped + len(self.items)


log: Final = logging.getLogger("switchgear.emitter")

_EVERY_S: Final = 10.0


class DropReport:
    """What was told of one buffer's drops."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._told = 0
        self._next = 0.0

    def tell(self, *, last: bool = False) -> None:
        """Log what is new, where it is time to, or for the ``last`` time."""
        dropped = self._buffer.dropped
        if dropped > self._told and (last or time.monotonic() >= self._next):
            log.error(
                "%d events were dropped, %d since the last report: the buffer of %d is full",
                dropped,
                dropped - self._told,
                self._buffer.limit,
            )
            self._told = dropped
            self._next = time.monotonic() + _EVERY_S
