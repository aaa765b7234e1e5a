"""What an emitter gives its records to: counts them, bounds them, and reports their answers. Kafka and HTTP each have one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from switchgear.emitter.record_batch import STOPPED, Mark, PartitionQueue, RecordBatch, singles
from switchgear_schemas.enums import MAX_EVENT_BYTES

log: Final = logging.getLogger("switchgear.emitter")

LARGEST_RECORD: Final = 4 * MAX_EVENT_BYTES
"""Larger records are refused here. A request above the limit of Kafka or of the gateway would take others with it."""
AWAY_AFTER_S: Final = 1.0
"""The other side counts as down when it has not answered for this time. A start or a change of leader usually takes less."""


class Sender(ABC):
    """Sends records, oldest first, until each is acknowledged or refused. It lives in one event loop and runs once.

    Args:
        limit: The most records that wait or are in flight.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._queues: dict[int, PartitionQueue] = {}
        self._hurry = asyncio.Event()
        self._space = asyncio.Event()
        self._progress_at = math.inf
        self.started = False
        self.pending = 0
        self.acknowledged = 0
        self.failed = 0
        self.failed_attempts = 0
        """Failed attempts to connect since the last connection. It may be reset to 0."""
        self.last_error: str | None = None

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether records can be sent now."""

    @abstractmethod
    async def run(self) -> None:
        """Send what is offered until cancelled. Then answer :data:`STOPPED` for what waits."""

    @abstractmethod
    def offer(self, batches: Iterable[RecordBatch]) -> None:
        """Queue records. Call :meth:`room` before. Records that are too large are refused at once."""

    @property
    def room_left(self) -> int:
        """How many records may be offered now."""
        return max(0, self.limit - self.pending) if self.connected else 0

    async def room(self) -> None:
        """Wait until it is connected and has room for a record."""
        while not self.connected or self.pending >= self.limit:
            self._space.clear()
            await self._space.wait()

    async def mark(self) -> Mark:
        """Return a mark of what is here now."""
        return Mark([(queue, queue.offered) for queue in self._queues.values()])

    def hurry(self) -> None:
        """Try to connect now, without waiting for the end of the pause."""
        self._hurry.set()

    def silent_s(self, now: float) -> float:
        """Return how long there was no answer although a connection or an acknowledgement is awaited, in seconds."""
        return 0.0 if self.connected and not self.pending else max(0.0, now - self._progress_at)

    def away_s(self, now: float) -> float | None:
        """Return :meth:`silent_s`, or None if it is below :data:`AWAY_AFTER_S`."""
        silent = self.silent_s(now)
        return silent if silent >= AWAY_AFTER_S else None

    def unanswered(self) -> list[RecordBatch]:
        """Return everything in flight or waiting, in the order of each queue, and keep it as batches of one from now on."""
        found: list[RecordBatch] = []
        for queue in self._queues.values():
            queue.in_flight[:] = singles(queue.in_flight)
            queue.waiting = deque(singles(queue.waiting))
            found += queue.in_flight
            found += queue.waiting
        return found

    # -- for subclasses -----------------------------------------------------------------------------------------------

    async def _paused(self, seconds: float) -> bool:
        """Wait, at most until :meth:`hurry`. Return whether that was called."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
                self._hurry.clear()
                return True
        return False

    def _sendable(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Count records as pending, and refuse those that are too large."""
        for batch in batches:
            self.pending += len(batch.values)
            if max(map(len, batch.values)) <= LARGEST_RECORD:
                yield batch
                continue
            for record in singles([batch]):
                size = len(record.value)
                if size <= LARGEST_RECORD:
                    yield record
                else:
                    self._refuse(record, f"the event has {size} bytes, the limit is {LARGEST_RECORD}")

    def _acknowledge(self, batches: list[RecordBatch], sent: int) -> None:
        self.acknowledged += sent
        self._settle(sent)
        for batch in batches:
            if batch.answer is not None:
                batch.answer(None)

    def _refuse(self, record: RecordBatch, reason: str, *, quiet: bool = False) -> None:
        self.failed += 1
        self.last_error = f"an event of {record.tool:.200} was refused: {reason}"
        if not quiet:
            log.error("%s", self.last_error)
        self._settle(1)
        if record.answer is not None:
            record.answer(reason)

    def _settle(self, count: int) -> None:
        self.pending -= count
        self._progress_at = time.monotonic()
        self._space.set()

    def _note(self, message: str, pause: float) -> None:
        """Log a problem once, until there is another one."""
        if message != self.last_error:
            log.warning("%s%s", message, f"; trying again in {pause:.1f} s" if pause else "")
        self.last_error = message

    def _stop_waiting(self) -> None:
        """Answer :data:`STOPPED` for everything that waits."""
        for queue in self._queues.values():
            for batch in queue.waiting:
                if batch.answer is not None:
                    batch.answer(STOPPED)
            queue.waiting.clear()


class Destination(Protocol):
    """Where an emitter sends its events."""

    @property
    def name(self) -> str:
        """What it is, for messages."""
        ...

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        ...

    def sender(self, limit: int) -> Sender:
        """Return a sender for at most ``limit`` records at a time. Each runs once."""
        ...
