"""SpoolRouter: from the buffer to the outbox, in order, by way of the disk while Kafka is away.

Kafka is taken as away when it has answered nothing for a second although something waits for it; the disk helps too when the
buffer is half full. From then on every event goes through the spool, and events that were in flight are copied to it, so that
a crash loses neither. When Kafka answers again the spool is sent, oldest first, and new events queue behind it on disk until
it is empty: the order of each tool stays. Two kinds overtake it, because they are worth nothing later: a request for a probe,
and the result of one. A request that has to go to disk is kept as the refusal that it is too, without the request: sent a minute
later, or by another process, it would only have the owner wait for a probe that nobody makes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from switchgear.emitter.buffer import Buffer, Item
from switchgear.emitter.event import Event
from switchgear.emitter.outbox import LARGEST_RECORD, Outbox
from switchgear.emitter.records import Parcel, Record, singles
from switchgear.emitter.spool.disk import Disk
from switchgear.emitter.spool.frame import LONGEST_NAME
from switchgear.emitter.spool.place import Place
from switchgear.emitter.spool.spool import Spool, Taken, Written
from switchgear.emitter.spool.status import SpoolStatus
from switchgear_schemas.errors import SwitchgearError

log: Final = logging.getLogger("switchgear.spool")
T = TypeVar("T")

AT_ONCE: Final = 2_000
LEAST_BYTES: Final = 16 * 1_048_576
"""Four of the largest records; below it one segment would be most of the spool."""
_WINDOW: Final = 4_000
"""Records of the spool in flight at once; with half of the outbox kept free, what overtakes the spool finds room and a short queue."""
_POLL_S: Final = 0.02
_LOOK_S: Final = 0.1
_OPEN_LIMIT_S: Final = 2.0
_LOOK_AGAIN_S: Final = 60.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


class Source(NamedTuple):
    """What a feeder needs of its emitter."""

    until_events: Callable[[float | None], Awaitable[None]]
    """Returns when an event is there, or after so many seconds."""
    linger: Callable[[], Awaitable[None]]
    """Waits for company, but with an urgent event."""
    encode: Callable[[Sequence[Item]], list[Parcel]]
    """Events as records and runs of them; what can't be encoded is counted and left out."""


def feeder(
    buffer: Buffer, source: Source, folder: str | os.PathLike[str], limit_bytes: int, *, fsync: bool
) -> SpoolRouter:
    """A feeder with a spool in ``folder``.

    Raises:
        SwitchgearError: the limit is below :data:`LEAST_BYTES`.
    """
    if limit_bytes < LEAST_BYTES:
        raise SwitchgearError(f"spool_bytes is {limit_bytes}.", hint=f"Give it {LEAST_BYTES} bytes (16 MiB) or more.")
    root = Path(folder).absolute()  # whatever the working directory is later
    return SpoolRouter(buffer, source, Spool(root, limit_bytes, fsync=fsync), Disk("switchgear-spool"))


class SpoolRouter:
    """One loop a life of the outbox: :meth:`run`. The spool outlives them."""

    def __init__(self, buffer: Buffer, source: Source, spool: Spool, disk: Disk) -> None:
        self._buffer = buffer
        self._source = source
        self._spool = spool
        self._disk = disk
        self._held: list[Record] = []
        self._opened = False
        self._opening: asyncio.Future[None] | None = None
        self._look_at = self._retry_at = self._read_at = 0.0
        self._pause = _FIRST_PAUSE_S
        self._error: str | None = None
        self._failing = ""
        self._behind = self._renewed = False
        self._in_use = False
        self._copied = False
        self._persisting = False
        self._runs = 0
        self._answered = 0
        self.persisted = False
        """Everything that :meth:`persist_pending` asked for is on disk, or the disk won't have it."""

    def status(self) -> SpoolStatus:
        """As of now."""
        spool = self._spool
        return SpoolStatus(
            in_use=self._in_use,
            records=spool.records,
            bytes=spool.bytes,
            limit_bytes=spool.limit_bytes,
            taken_over=spool.taken_over,
            dropped=spool.dropped,
            damaged=spool.damaged,
            error=self._error,
            waiting_s=self._disk.waiting_s,
        )

    @property
    def holds(self) -> bool:
        """It has records that are neither in the buffer nor on disk nor in the outbox."""
        return bool(self._held)

    def persist_pending(self, timeout: float) -> bool:
        """From another thread: write what Kafka has not acknowledged to the disk, and send nothing more."""
        self._persisting = True
        deadline = time.monotonic() + timeout
        while not self.persisted and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return self.persisted

    def close(self, timeout: float) -> None:
        """When :meth:`run` has ended: leave the folder in order, to the next process or empty."""
        if not self._disk.finish(self._spool.close, timeout):
            log.error("the disk of the spool at %s did not answer within %g s", self._spool.root, timeout)

    def forked(self) -> None:
        """In a child: the spool is the parent's; the child makes its own."""
        self._disk.forked()
        self._spool.forked()
        self._held = []
        self._opened = self._in_use = self._copied = self._persisting = self.persisted = False
        self._behind = self._renewed = False
        self._look_at = self._retry_at = self._read_at = 0.0
        self._runs = 0

    async def run(self, outbox: Outbox) -> None:
        """Feed ``outbox`` for ever; cancel to end."""
        self._runs += 1
        self._answered = -1
        self._behind = self._runs > 1  # the last outbox died: what it had is read again
        await self._go_back()
        opening = self._opening = asyncio.ensure_future(self._open())
        try:
            await asyncio.wait([opening], timeout=_OPEN_LIMIT_S)
            while True:
                now = time.monotonic()
                persisting = self._persisting
                due = now >= self._look_at or (self._spool.more and not persisting)
                if opening.done() and due and now >= self._retry_at:
                    opening = self._opening = asyncio.ensure_future(self._open())
                if self._behind and now >= self._read_at:
                    await self._go_back()
                if persisting and not self._renewed:
                    await self._renew()
                away = persisting or outbox.away_s(now) is not None
                usable = self._opened and not self._behind and now >= self._retry_at
                full = len(self._buffer) > self._buffer.limit // 2
                self._in_use = bool(self._spool.unread) or (usable and (away or full or bool(self._held)))
                if self._in_use:
                    await self._by_disk(outbox, usable=usable, persisting=persisting)
                elif persisting:
                    self.persisted = True
                    await asyncio.sleep(_POLL_S)
                else:
                    self._copied = False
                    await self._directly(outbox)
        finally:
            opening.cancel()

    async def _open(self) -> None:
        if await self._tried("open", self._spool.open) is not None:
            self._opened = True
            self._look_at = time.monotonic() + _LOOK_AGAIN_S

    async def _renew(self) -> None:
        """Before the last events are written: the folder may be gone, and a disk that failed is tried once more at once."""
        self._renewed = True
        if await self._tried("open", functools.partial(self._spool.renew, leaving=True)):
            self._opened = True
            self._retry_at = 0.0

    async def _go_back(self) -> None:
        """Have the spool read again what has no answer any more, where that is so and has not been done."""
        if self._behind:
            self._behind = not await self._tried("read", self._spool.go_back)

    async def _directly(self, outbox: Outbox) -> None:
        """Kafka answers: from memory to memory."""
        await self._progress(outbox)
        room = outbox.room_left
        if not room:
            await asyncio.sleep(_POLL_S)
            return
        if self._held:
            held, self._held = self._held, []
            outbox.offer(held)
            return
        taken = self._buffer.take(min(AT_ONCE, room))
        if taken:
            outbox.offer(self._source.encode(taken))
            if len(taken) < AT_ONCE:
                await self._source.linger()
            else:
                await asyncio.sleep(0)
        else:
            taking_over = self._spool.more or self._spool.unread or not (self._opening is None or self._opening.done())
            busy = outbox.pending or self._spool.outstanding or taking_over
            await self._source.until_events(_LOOK_S if busy else _LOOK_AGAIN_S)

    async def _by_disk(self, outbox: Outbox, *, usable: bool, persisting: bool) -> None:
        """Newer events to the end of the spool, its oldest to Kafka."""
        moved = False
        if usable:
            if not (self._spool.unread or self._held) and (persisting or not self._copied):
                self._copied = await self._copy(outbox)
            moved = await self._write(outbox)
        now = time.monotonic()
        readable = not self._behind and now >= self._read_at
        answering = outbox.away_s(now) is None
        room = min(AT_ONCE, outbox.room_left - outbox.limit // 2, _WINDOW - outbox.pending)
        if answering and readable and not persisting and self._spool.unread and room > 0:
            moved = await self._send(outbox, room) or moved
        await self._progress(outbox)
        if moved:
            await self._source.linger()
        elif persisting or self._spool.unread:
            self.persisted = persisting
            await asyncio.sleep(_POLL_S)
        else:
            await self._source.until_events(_LOOK_S)

    async def _progress(self, outbox: Outbox) -> None:
        """Have the disk forget what Kafka has answered for, where there are answers since the last time."""
        answered = outbox.acknowledged + outbox.failed
        if self._spool.outstanding and answered != self._answered:
            await self._disk.run(self._spool.progress)
            self._answered = answered

    async def _copy(self, outbox: Outbox) -> bool:
        """What is in flight, to the disk too: the copies are sent only if this process dies. False where the disk won't."""
        found = [each for each in outbox.unanswered() if each.answer is None and each.place is None and _fits(each)]
        places = [Place(self._spool.tally) for _ in found]
        for record, place in zip(found, places, strict=True):
            record.place = place
        copies = [Written(each.key, each.value, sent=True) for each in found]
        written = await self._tried("write", functools.partial(self._append, copies, places))
        for record, place in list(zip(found, places, strict=True))[written or 0 :]:
            place.give_up()
            record.place = None
        return written is not None

    async def _write(self, outbox: Outbox) -> bool:
        """Up to a batch from the buffer to the disk; False when there was none, or the disk won't have it."""
        if not self._held:
            self._held = self._taken(outbox)
        held = self._held
        if not held:
            return False
        lines = [Written(each.key, each.value, each.marked) for each in held]
        try:
            put = await self._tried("write", functools.partial(self._put, lines))
        except asyncio.CancelledError:
            for record in held:  # the disk may have them all the same
                record.marked = True
            raise
        done, misfits = put or (0, {})
        self._held = held[done:]
        for index, reason in misfits.items():
            outbox.refuse(held[index], reason)
        return bool(done)

    def _taken(self, outbox: Outbox) -> list[Record]:
        """A batch from the buffer for the disk, without those that overtake it and those that go nowhere."""
        taken = self._buffer.take(AT_ONCE)
        if outbox.room_left:
            hasty = [item for item in taken if _hasty(item)]
            if hasty:
                outbox.offer(self._source.encode(hasty))
                taken = [item for item in taken if not _hasty(item)]
        for event, *_ in taken:
            if isinstance(event, Event):
                event.probe_requested = False
        records = singles(self._source.encode(taken))
        outbox.offer(each for each in records if len(each.value) > LARGEST_RECORD)  # which refuses it
        records = [each for each in records if len(each.value) <= LARGEST_RECORD]
        for each in records:
            if not _fits(each):
                outbox.refuse(each, f"its tool's name has more than the {LONGEST_NAME} bytes that the spool can hold")
        return [each for each in records if _fits(each)]

    def _append(self, lines: Sequence[Written], places: Sequence[Place] | None = None) -> int:
        """In the disk's thread: :meth:`Spool.append`, after an error with a folder that is looked at again."""
        if self._error is not None:
            self._spool.renew()
        return self._spool.append(lines, places)

    def _put(self, lines: Sequence[Written]) -> tuple[int, dict[int, str]]:
        """In the disk's thread: how many are done with, and which of these can't be written whatever the disk does, with the reason."""
        try:
            return self._append(lines), {}
        except OSError:
            raise
        except Exception:
            log.exception("%d events can't be written to the spool at once, so one by one", len(lines))
        misfits: dict[int, str] = {}
        for index, line in enumerate(lines):
            try:
                self._spool.append([line])
            except OSError:
                if not index:
                    raise
                return index, misfits
            except Exception as error:  # noqa: BLE001 - told by whoever refuses it
                misfits[index] = f"{type(error).__name__}: {error}"
        return len(lines), misfits

    async def _send(self, outbox: Outbox, most: int) -> bool:
        """Up to ``most`` of the spool's records to Kafka; False when the disk can't be read."""
        taken: list[Taken] | None = await self._tried("read", functools.partial(self._spool.read, most))
        records = []
        for each in taken or ():
            record = Record(each.tool, each.value)
            record.marked, record.place = each.sent, each.place
            records.append(record)
        outbox.offer(records)
        return bool(records)

    async def _tried(self, what: str, work: Callable[[], T]) -> T | None:
        """The result; None where the disk won't, which is told once, seen in the status, and tried again after a pause.

        An error ends when ``what`` failed works again, or the folder was opened: while it is full, say, it can be read.
        """
        try:
            found = await self._disk.run(work, at_any_rate=self._persisting)
        except Exception as error:  # noqa: BLE001 - whatever it is, events must go on by way of memory
            reason = f"{type(error).__name__}: {error}"
            if reason != self._error:
                log.error("the spool at %s can't be used, events stay in memory: %s", self._spool.root, reason)  # noqa: TRY400 - the trace shows nothing but us
            self._error, self._failing = reason, what
            again = time.monotonic() + self._pause
            if what == "read":  # which is no reason not to write
                self._read_at = again
            else:
                self._retry_at = again
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            return None
        if self._error is not None and what in {self._failing, "open"}:
            log.info("the spool at %s can be used again", self._spool.root)
            self._error = None
            self._pause = _FIRST_PAUSE_S
        return found


def _fits(record: Record) -> bool:
    """Its tool's name can be written to the spool."""
    return len(record.key) <= LONGEST_NAME


def _hasty(item: Item) -> bool:
    """It may overtake the spool: a request for a probe, or the result of one."""
    event = item[0]
    return isinstance(event, Event) and (event.probe_requested or event.lease_id is not None)
