"""The way of the events from the buffer to the outbox, through the disk while Kafka is down.

The disk is used when Kafka has answered nothing for a second although something waits for it, and when the buffer is half full.
Then every event goes through the spool. Events in flight are copied to it, so that a crash loses neither. When Kafka answers
again the spool is sent, oldest first, and new events queue behind it until it is empty: each tool's order stays.

Requests for a probe and results of probes overtake the spool, because they are worthless later. A request that has to go to disk
is kept without its request, as a plain refusal: sent a minute later, the owner would wait for a probe that no process makes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from switchgear.emitter.buffer import LONGEST_WAIT_S, Buffer, Item
from switchgear.emitter.event import Event
from switchgear.emitter.record_batch import RecordBatch, singles
from switchgear.emitter.sender import LARGEST_RECORD, Sender
from switchgear.emitter.spool import Place, Spool
from switchgear.emitter.status import SpoolStatus
from switchgear.runtime.background_thread import DaemonExecutor
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.errors import SwitchgearError

log: Final = logging.getLogger("switchgear.spool")
T = TypeVar("T")

AT_ONCE: Final = 2_000
LEAST_BYTES: Final = 16 * 1_048_576
"""Four of the largest records."""
_WINDOW: Final = 4_000
"""Most records of the spool in flight. With half of the outbox kept free, what overtakes the spool finds room and a short queue."""
_POLL_S: Final = 0.02
_LOOK_S: Final = 0.1
_LOOK_AGAIN_S: Final = 60.0
_RETRY_S: Final = 5.0
_CHECK_LIMIT_S: Final = 0.5


class _DiskUse:
    """Whether one kind of use of the disk works, and when to try it again."""

    def __init__(self) -> None:
        self.error: str | None = None
        self._retry_at = 0.0

    def ready(self, now: float) -> bool:
        """Whether to try it."""
        return now >= self._retry_at

    def failed(self, reason: str, root: Path) -> None:
        """Log a new reason, and wait before the next try."""
        if reason != self.error:
            log.error("the spool at %s can't be used, events stay in memory: %s", root, reason)
        self.error = reason
        self._retry_at = time.monotonic() + _RETRY_S

    def worked(self, root: Path) -> None:
        """Forget the last failure."""
        if self.error is not None:
            log.info("the spool at %s can be used again", root)
            self.error = None


class SpoolRouter:
    """Moves events from the buffer to an outbox. :meth:`run` runs once for each outbox; the spool outlives them.

    Args:
        buffer: Where the events come from.
        folder: The spool's folder.
        limit_bytes: Most bytes on disk.
        fsync: Wait for the disk after each write.
        until_events: Wait until an event is there, or so many seconds have passed.
        linger: Wait for more events, or an urgent one.
        encode: Encode events. What can't be encoded is counted and left out.
        forward: Move up to so many events from the buffer to an outbox, or wait for one, at most so many seconds.

    Raises:
        SwitchgearError: ``limit_bytes`` is below :data:`LEAST_BYTES`.
    """

    def __init__(
        self,
        buffer: Buffer,
        folder: str | os.PathLike[str],
        limit_bytes: int,
        *,
        fsync: bool,
        until_events: Callable[[float], Awaitable[None]],
        linger: Callable[[], Awaitable[None]],
        encode: Callable[[Sequence[Item]], list[RecordBatch]],
        forward: Callable[[Sender, int, float], Awaitable[None]],
    ) -> None:
        if limit_bytes < LEAST_BYTES:
            raise SwitchgearError(
                f"spool_bytes is {limit_bytes}.", hint=f"Give it {LEAST_BYTES} bytes (16 MiB) or more."
            )
        self._buffer = buffer
        self._until_events = until_events
        self._linger = linger
        self._encode = encode
        self._forward = forward
        self._spool = Spool(Path(folder).absolute(), limit_bytes, fsync=fsync)  # the working directory may change
        self._start_afresh()
        call_in_child(self._start_afresh)
        self._check()

    def _check(self) -> None:
        """Show in the status that the folder can't be used, before the first event needs it. A slow disk is not waited for."""
        try:
            DaemonExecutor().submit(self._spool.check).result(_CHECK_LIMIT_S)
        except TimeoutError:
            log.warning("the disk of the spool at %s is slow: no answer within %g s", self._spool.root, _CHECK_LIMIT_S)
        except OSError as error:
            self._writing.failed(f"{type(error).__name__}: {error}", self._spool.root)

    def _start_afresh(self) -> None:
        self._held: list[RecordBatch] = []
        self._reading, self._writing = _DiskUse(), _DiskUse()
        self._look_at = 0.0
        self._in_use = self._copied = self._stopping = False
        self._running: asyncio.Task[Any] | None = None

    def status(self) -> SpoolStatus:
        """Return the counts and the condition of the spool."""
        spool = self._spool
        return SpoolStatus(
            in_use=self._in_use,
            records=spool.records,
            bytes=spool.bytes,
            limit_bytes=spool.limit_bytes,
            taken_over=spool.taken_over,
            dropped=spool.dropped,
            damaged=spool.damaged,
            error=self._writing.error or self._reading.error,
        )

    @property
    def in_flight(self) -> int:
        """Events in the outbox that are on disk too."""
        return max(0, self._spool.records - self._spool.unread)

    @property
    def holds(self) -> bool:
        """Whether it has records that are neither in the buffer, nor on disk, nor in the outbox."""
        return bool(self._held)

    async def persist(self, outbox: Sender) -> None:
        """Stop :meth:`run`, and write what Kafka has not acknowledged to the disk."""
        self._stopping = True
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._spool.answered:
            await self._tried(self._writing, self._spool.progress)
        if not (self._spool.unread or self._held):
            await self._copy(outbox)
        while await self._write(outbox):
            pass

    def close(self, timeout: float) -> None:
        """Close the spool when :meth:`run` has ended."""
        try:
            DaemonExecutor().submit(self._spool.close).result(timeout)
        except TimeoutError:
            log.error("the disk of the spool at %s did not answer within %g s", self._spool.root, timeout)  # noqa: TRY400 - the trace adds nothing
        except (OSError, sqlite3.Error) as error:
            log.error("the spool at %s can't be closed: %s", self._spool.root, error)  # noqa: TRY400 - the trace adds nothing

    async def run(self, outbox: Sender) -> None:
        """Feed ``outbox`` until cancelled."""
        self._running = asyncio.current_task()
        await self._tried(self._reading, self._spool.go_back)  # what an earlier outbox had in flight
        while not self._stopping:
            usable = await self._keep_house()
            away = outbox.away_s(time.monotonic()) is not None
            full = len(self._buffer) > self._buffer.limit // 2
            self._in_use = bool(self._spool.unread) or (usable and (away or full or bool(self._held)))
            if self._in_use:
                await self._by_disk(outbox, usable=usable)
            else:
                self._copied = False
                await self._directly(outbox)

    async def _keep_house(self) -> bool:
        """Delete what Kafka has answered for, and look for files of processes that are gone. Return whether the disk can be written."""
        if self._spool.answered and self._writing.ready(time.monotonic()):
            await self._tried(self._writing, self._spool.progress)
        now = time.monotonic()
        if self._writing.ready(now) and (now >= self._look_at or self._spool.more):
            await self._tried(self._writing, self._spool.open)
            self._look_at = now + _LOOK_AGAIN_S if self._writing.error is None else 0.0
        return self._writing.ready(time.monotonic())

    async def _directly(self, outbox: Sender) -> None:
        """Kafka answers: move events from memory to memory."""
        room = outbox.room_left
        if not room:
            await asyncio.sleep(_POLL_S)
            return
        if self._held:
            held, self._held = self._held, []
            outbox.offer(held)
            return
        busy = outbox.pending or self._spool.answered or self._spool.more
        await self._forward(outbox, min(AT_ONCE, room), _LOOK_S if busy else LONGEST_WAIT_S)

    async def _by_disk(self, outbox: Sender, *, usable: bool) -> None:
        """Move new events to the end of the spool, and its oldest to Kafka."""
        moved = False
        if usable:
            if not (self._spool.unread or self._held or self._copied):
                self._copied = await self._copy(outbox)
            moved = await self._write(outbox)
        now = time.monotonic()
        room = min(AT_ONCE, outbox.room_left - outbox.limit // 2, _WINDOW - outbox.pending)
        if self._spool.unread and room > 0 and outbox.away_s(now) is None and self._reading.ready(now):
            moved = await self._send(outbox, room) or moved
        if moved:
            await self._linger()
        elif self._spool.unread:
            await asyncio.sleep(_POLL_S)
        else:
            await self._until_events(_LOOK_S)

    async def _copy(self, outbox: Sender) -> bool:
        """Copy what is in flight to the disk, to be sent only if this process dies. Return False if the disk fails."""
        found = [each for each in outbox.unanswered() if each.answer is None]
        if not found:  # nothing is written, so it would not show that the disk works
            return True
        for record in found:
            record.answer = Place(self._spool.answered)
        written = await self._tried(self._writing, functools.partial(self._spool.append, found, in_flight=True))
        for record in found[written or 0 :]:
            record.answer = None
        return written is not None

    async def _write(self, outbox: Sender) -> bool:
        """Write up to a batch from the buffer to the disk. Return False if there is none, or the disk fails."""
        if not self._held:
            self._held = self._taken(outbox)
        if not self._held:
            return False
        try:
            written = await self._tried(self._writing, functools.partial(self._spool.append, self._held))
        except asyncio.CancelledError:
            for record in self._held:  # the disk may have them all the same
                record.resent = True
            raise
        self._held = self._held[written or 0 :]
        return bool(written)

    def _taken(self, outbox: Sender) -> list[RecordBatch]:
        """Take a batch from the buffer for the disk, without events that overtake the disk or are too large."""
        taken = self._buffer.take(AT_ONCE)
        if outbox.room_left and not self._stopping:
            outbox.offer(self._encode([item for item in taken if _hasty(item)]))
            taken = [item for item in taken if not _hasty(item)]
        for event, *_ in taken:
            if isinstance(event, Event):
                event.probe_requested = False
        records = singles(self._encode(taken))
        outbox.offer(each for each in records if len(each.value) > LARGEST_RECORD)  # the outbox refuses them
        return [each for each in records if len(each.value) <= LARGEST_RECORD]

    async def _send(self, outbox: Sender, most: int) -> bool:
        """Send up to ``most`` of the spool's events. Return False if the disk can't be read."""
        records = await self._tried(self._reading, functools.partial(self._spool.read, most))
        outbox.offer(records or ())
        return bool(records)

    async def _tried(self, use: _DiskUse, work: Callable[[], T]) -> T | None:
        """Run ``work`` in a thread. Return None if the disk fails, which is logged once and shown in the status."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, work)
        except Exception as error:  # noqa: BLE001 - whatever it is, events must go on through memory
            use.failed(f"{type(error).__name__}: {error}", self._spool.root)
            return None
        use.worked(self._spool.root)
        return found


def _hasty(item: Item) -> bool:
    """Return whether an event may overtake the spool: a request for a probe, or the result of one."""
    event = item[0]
    return isinstance(event, Event) and (event.probe_requested or event.lease_id is not None)
