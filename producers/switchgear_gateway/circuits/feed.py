"""The way of the records from the follower's thread into the server's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import NamedTuple

from switchgear.follower.table import CircuitRecord


class Taken(NamedTuple):
    """What came since the last look.

    Attributes:
        restarted: The circuits come from the start, before ``records``.
        records: In the order of their partitions. Of each circuit only the last one.
        loaded: All circuits are there.
    """

    restarted: bool
    records: list[CircuitRecord]
    loaded: bool


class CircuitFeed:
    """Holds the records that the server has not taken yet: at most one for each circuit, however long the server takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[object, CircuitRecord] = {}
        self._restarted = False
        self._loaded = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._called = False

    def changed(self, record: CircuitRecord) -> None:
        """Take a record, in the follower's thread."""
        place = record.key if record.key is not None else (record.partition, record.offset)
        with self._lock:
            self._records.pop(place, None)  # so that it moves to the end
            self._records[place] = record
            self._call()

    def restarted(self) -> None:
        """Drop what was not taken, in the follower's thread."""
        with self._lock:
            self._records.clear()
            self._restarted, self._loaded = True, False
            self._call()

    def loaded(self) -> None:
        """Note that all circuits are there, in the follower's thread."""
        with self._lock:
            self._loaded = True
            self._call()

    async def wait(self) -> None:
        """Wait until something comes. For one task at a time."""
        arrived = asyncio.Event()
        with self._lock:
            if self._records or self._restarted or self._loaded:
                return
            self._waiter, self._called = (asyncio.get_running_loop(), arrived), False
        try:
            await arrived.wait()
        finally:
            with self._lock:
                self._waiter = None

    def take(self) -> Taken:
        """Return what came since the last call."""
        with self._lock:
            taken = Taken(self._restarted, list(self._records.values()), self._loaded)
            self._records, self._restarted, self._loaded = {}, False, False
        return taken

    def _call(self) -> None:
        """Wake the server once, with the lock held."""
        if self._waiter is None or self._called:
            return
        loop, arrived = self._waiter
        self._called = True
        with contextlib.suppress(RuntimeError):  # the server's loop is closed
            loop.call_soon_threadsafe(arrived.set)
