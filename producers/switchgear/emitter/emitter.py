"""Emitter: the front that callers meet, from any thread and any event loop."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self

from switchgear import arguments
from switchgear.arguments import FromEnv
from switchgear.emitter.batch import Mark
from switchgear.emitter.buffer import Buffer, DropReport, Item, own
from switchgear.emitter.clock_offset import ClockOffset
from switchgear.emitter.encode import encode_items
from switchgear.emitter.event import Event
from switchgear.emitter.outbox import Outbox
from switchgear.emitter.records import Parcel, Record, check_record
from switchgear.emitter.shutdown import EXIT_TIMEOUT_S, LastFlush, leave_at_exit
from switchgear.emitter.spool_router import Source, SpoolRouter, feeder
from switchgear.emitter.status import EmitterStatus, Receipt
from switchgear.emitter.wakeup import Wakeup
from switchgear.runtime.background_thread import Background
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.ids import mint_emitter_id
from switchgear_schemas.topics import TopicNames

log: Final = logging.getLogger("switchgear.emitter")

_AT_ONCE: Final = 2_000
_POLL_S: Final = 0.005
_PERSIST_LIMIT_S: Final = 2.0
_END_LIMIT_S: Final = 10.0
_LOST: Final = "Switchgear closed with %d events that Kafka did not acknowledge (%s); they are probably lost"


class Emitter(FromEnv):
    """Sends executions to ``<prefix>executions``, keyed by tool, acknowledged by every in-sync replica.

    :meth:`emit` returns at once and never raises into the call; :meth:`send` and :meth:`submit` are for those who must know.

    Args:
        connection: the brokers, or just their ``host:port``, comma-separated.
        topic_prefix: before every topic name.
        service: name of the calling service, on every event.
        buffer_size: events held while Kafka is away or slow; when full the oldest goes (see ``emitter.buffer``).
        linger_s: least time between two sends. The first event after a pause goes at once, urgent ones always.
        in_flight: most records handed to Kafka and not yet acknowledged.
        compression: None, gzip, snappy, lz4 or zstd (the last three need their library).
        spool_dir: folder on a local disk where events wait while Kafka is away, and outlive this process; None: in memory alone.
            Processes may share it: each has a folder of its own in it, and takes over those of the dead.
        spool_bytes: most bytes of this process in it; when full the oldest go. 16 MiB at least.
        spool_fsync: wait for the disk itself after each write, so that a power cut loses nothing either.
        exit_timeout: longest wait for the last events when the process ends, in seconds. The wait is short if no broker can be reached.
        background: the thread to run in; an own one unless given.

    Raises:
        SwitchgearError: an argument is impossible; the message names it.
    """

    takes_tuples: ClassVar[bool] = True
    """The guard may append a plain success to ``buffer.items`` itself; a subclass that must see every event in emit() says no."""

    _settings = ("service", "topic_prefix", "spool_dir")

    def __init__(
        self,
        connection: KafkaConnection | str = "localhost:9092",
        *,
        topic_prefix: str = "switchgear.",
        service: str = "",
        buffer_size: int = 65_536,
        linger_s: float = 0.005,
        in_flight: int = 20_000,
        compression: str | None = None,
        spool_dir: str | os.PathLike[str] | None = None,
        spool_bytes: int = 268_435_456,
        spool_fsync: bool = False,
        exit_timeout: float = EXIT_TIMEOUT_S,
        background: Background | None = None,
    ) -> None:
        arguments.sending(
            service=service,
            topic_prefix=topic_prefix,
            buffer_size=buffer_size,
            compression=compression,
            spool_dir=spool_dir,
            spool_bytes=spool_bytes,
            spool_fsync=spool_fsync,
            exit_timeout=exit_timeout,
        )
        arguments.number("linger_s", linger_s)
        arguments.whole("in_flight", in_flight)
        self._connection = arguments.connection("connection", connection)
        self._topic = TopicNames(prefix=topic_prefix).executions
        self._service, self._linger_s, self._in_flight, self._compression = service, linger_s, in_flight, compression
        self.emitter_id = mint_emitter_id(service)
        self.buffer = Buffer(buffer_size)
        self._moments = ClockOffset()
        self._spool_router: SpoolRouter | None = None
        if spool_dir is not None:
            source = Source(self._until_events, self._linger, self._encode)
            self._spool_router = feeder(self.buffer, source, spool_dir, spool_bytes, fsync=spool_fsync)
        self._outbox: Outbox | None = None
        self._wakeup: Wakeup | None = None
        self.idle = True
        """The background thread waits for :meth:`wake`. It looks at the buffer once more after it sets this."""
        self.closed = False
        self.ended: bool | None = None
        """What the :meth:`close` that ended it answered."""
        self._ending = threading.RLock()  # of several that close at once, one ends it; one may be a signal handler
        self._encoding_failed = 0
        self._drops = DropReport(self.buffer)
        self._lost_counts = (0, 0)
        self._sent = 0
        self.before_close: list[Callable[[], None]] = []
        """Called before the last events are sent: for what others have summed up and not emitted yet."""
        self._background = background or Background("switchgear-emitter")
        self._background.add("emitter", self._work)
        self._background.after_fork.append(self._forked)
        self._background.after_death.append(self._orphaned)
        self._last_flush = LastFlush(self._background, lambda: self._outbox, exit_timeout)
        leave_at_exit(self)

    # -- callers ------------------------------------------------------------------------------------------------------

    def emit(self, event: Event | dict[str, Any], *, urgent: bool = False, ended_at: float | None = None) -> bool:
        """Put an event into the buffer: no I/O, no waiting, no exception. ``urgent`` events skip the linger.

        A dict is a ToolExecution's fields, and stays the caller's; what is missing is minted, what is not an execution is counted as failed and
        logged. ``ended_at`` (seconds since 1970, default now) becomes ``recorded_at`` where that is absent.

        Returns:
            True when accepted; False when the emitter is closed.
        """
        if self.closed:
            return False
        buffer = self.buffer
        if len(buffer.items) >= buffer.limit:
            self._make_room()
        if isinstance(event, dict):
            event = own(event)
        buffer.items.append((event, time.time() if ended_at is None else ended_at))
        if self.idle or urgent:
            self.wake(urgent)
        return True

    async def send(self, tool: str, value: bytes) -> None:
        """Send one encoded execution; returns when it is acknowledged. Many may be in flight, within ``in_flight``.

        Raises:
            SwitchgearError: the broker refused it, or the emitter is closed.
        """
        receipt = await asyncio.wrap_future(self.submit([(tool, value)]))
        if receipt.refused:
            raise SwitchgearError(f"The event of {tool} was not accepted: {receipt.refused[0][1]}.")

    def submit(self, records: Sequence[tuple[str, bytes]]) -> Future[Receipt]:
        """Send encoded executions, ``(tool, bytes)`` each; the future is done when every one has its answer.

        The bytes go as they are. Order within a tool is kept. The caller bounds how many futures it has open.

        Raises:
            SwitchgearError: the emitter is closed, a record is none, or no background thread can be started.
        """
        if self.closed:
            raise SwitchgearError("This emitter is closed.", hint="Make a new one.")
        for number, record in enumerate(records):
            check_record(number, *record)
        self._background.loop()
        return self._background.run(deliver(records, lambda: self._outbox, self._in_flight, self._count_sent))

    def connect(self, timeout: float) -> bool:
        """Start now and wait until a producer is ready; False when ``timeout`` seconds did not suffice. Not for event loops."""
        self._background.loop()
        deadline = time.monotonic() + timeout
        while not self.connected and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return self.connected

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every event that was emitted before has its answer. Not for event loops.

        Returns:
            False when ``timeout`` seconds did not suffice, or it was closed without an answer for every event.
        """
        return flushed(self, self.buffer, self._hurry_up, self._mark, self._last_flush.hopeless, timeout)

    async def aflush(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as flush
        """:meth:`flush` for event loops."""
        return await asyncio.to_thread(self.flush, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush, then end the background thread. What could not be sent stays in the spool, or counts as dropped.

        Closing twice is fine, also at once; the first answer stays.

        Returns:
            True when every accepted event was answered.
        """
        if self.ended is not None:
            return self.ended
        for callback in self.before_close:
            callback()
        flushed = self.flush(timeout)
        if self._ending.acquire(timeout=0 if self._background.here else _END_LIMIT_S):  # the ender may join that thread
            try:
                if not self.closed:
                    self._end(flushed)
            finally:
                self._ending.release()
        return flushed if self.ended is None else self.ended

    def _end(self, flushed: bool) -> None:
        dropped = self.status().dropped
        self.ended = flushed
        self.closed = True
        self._drops.tell(last=True)
        if self._spool_router is not None and not flushed and self._background.alive:
            self._spool_router.persist_pending(_PERSIST_LIMIT_S)
        status = self.status()
        if lost := status.dropped - dropped:
            log.error(_LOST, lost, self._connection.bootstrap_servers)
        if status.spooled:
            log.warning("closed with %d events in the spool; the next process sends them", status.spooled)
        self._background.close(self._last_flush.join_limit_s(flushed=flushed))
        if self._spool_router is not None:
            self._spool_router.close(_PERSIST_LIMIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def status(self) -> EmitterStatus:
        """Counts and condition, as of now."""
        outbox = self._outbox
        acknowledged, failed = (0, 0) if outbox is None else (outbox.acknowledged, outbox.failed)
        acknowledged += self._lost_counts[0]
        failed += self._lost_counts[1] + self._encoding_failed
        spool = None if self._spool_router is None else self._spool_router.status()
        emitted = self.buffer.accepted + self._sent
        dropped = self.buffer.dropped
        spooled = 0
        if spool is not None:
            emitted, dropped, spooled = emitted + spool.taken_over, dropped + spool.dropped, spool.records
        buffered = max(0, emitted - acknowledged - failed - dropped - spooled)
        if self.closed:
            dropped, buffered = dropped + buffered, 0
        return EmitterStatus(
            emitted=emitted,
            acknowledged=acknowledged,
            dropped=dropped,
            failed=failed,
            buffered=buffered,
            spooled=spooled,
            spool=spool,
            away_s=None if outbox is None else outbox.away_s(time.monotonic()),
            connected=outbox is not None and outbox.connected,
            alive=self._background.alive,
            last_error=None if outbox is None else outbox.last_error,
        )

    @property
    def connected(self) -> bool:
        """A producer is ready."""
        return self._outbox is not None and self._outbox.connected

    # -- the background loop ------------------------------------------------------------------------------------------

    def wake(self, urgent: bool) -> None:
        """Wake the background thread, starting it where it does not run. Call it after an append while ``idle`` is true."""
        try:
            self.idle = False
            loop = self._background.loop()
            loop.call_soon_threadsafe(self._ring, urgent)
        except (SwitchgearError, RuntimeError) as error:  # closing, or the thread died: the next event tries again
            self.idle = True
            log.debug("the background loop was not woken: %s", error)
        except BaseException:  # a signal handler's: the next event wakes in our place
            self.idle = True
            raise

    def _hurry_up(self) -> None:
        if not self.closed:
            self.wake(urgent=True)

    def _mark(self) -> Future[Mark] | None:
        """What is on its way, where all that left the buffer is there."""
        outbox, feeder = self._outbox, self._spool_router
        if outbox is None or (feeder is not None and feeder.holds):
            return None
        try:
            return self._background.run(outbox.mark())
        except (SwitchgearError, RuntimeError):  # as in wake
            return None

    def _ring(self, urgent: bool) -> None:
        if self._wakeup is not None:
            self._wakeup.ring(urgent)

    async def _work(self) -> None:
        """The background job: a producer kept ready, and the buffer drained into it."""
        if self._outbox is not None:  # started again after a death: what was in flight has no answer
            self._lost_counts = (
                self._lost_counts[0] + self._outbox.acknowledged,
                self._lost_counts[1] + self._outbox.failed + self._outbox.abandoned,
            )
        outbox = self._outbox = Outbox(
            self._connection, self._topic, limit=self._in_flight, compression=self._compression
        )
        self._wakeup = Wakeup()
        async with asyncio.TaskGroup() as group:
            group.create_task(outbox.run())
            group.create_task(self._drain(outbox))
            group.create_task(self._moments.watch())

    async def _drain(self, outbox: Outbox) -> None:
        if self._spool_router is not None:
            await self._spool_router.run(outbox)
        while True:
            await outbox.room()
            taken = self.buffer.take(_AT_ONCE)
            if not taken:
                await self._until_events(None)
                continue
            outbox.offer(self._encode(taken))
            if len(taken) < _AT_ONCE:
                await self._linger()
            else:
                await asyncio.sleep(0)

    async def _until_events(self, limit_s: float | None) -> None:
        assert self._wakeup is not None
        self._wakeup.reset()
        self.idle = True
        if not len(self.buffer):  # else one came between: a second look closes the race with emit()
            await self._wakeup.heard(limit_s)
        self.idle = False

    async def _linger(self) -> None:
        assert self._wakeup is not None
        await self._wakeup.linger(self._linger_s)

    def _encode(self, items: Sequence[Item]) -> list[Parcel]:
        self._moments.look()
        return encode_items(
            items, emitter_id=self.emitter_id, service=self._service, moments=self._moments, failed=self._not_encoded
        )

    def _not_encoded(self, error: Exception) -> None:
        self._encoding_failed += 1
        log.error("an event was not sent: %s", error)

    def _count_sent(self) -> None:
        self._sent += 1

    def _make_room(self) -> None:
        self.buffer.make_room()
        self._drops.tell()

    def _forked(self) -> None:
        """In a child: the parent's events are the parent's to send, and the identity is its own."""
        self.buffer.clear()
        if self._spool_router is not None:
            self._spool_router.forked()
        self._outbox = self._wakeup = None
        self.idle, self._ending = True, threading.RLock()
        self.ended = True if self.closed else None
        self._drops = DropReport(self.buffer)
        self._encoding_failed = self._sent = 0
        self._lost_counts = (0, 0)
        self.emitter_id = mint_emitter_id(self._service)

    def _orphaned(self) -> None:
        """The thread died: let the next event start it again."""
        self.idle = True

    def leave(self, waited_s: float) -> None:
        """Close at the end of the process: send what can be sent in time, keep the rest in the spool, or count it as dropped."""
        limit_s = self._last_flush.begin(waited_s)
        for callback in self.before_close:
            callback()
        if len(self.buffer) and not self.closed:
            self._background.start_or_run_here(
                lambda: self._last_flush.hopeless() or not self.status().buffered, limit_s
            )
        self.close(limit_s if self._background.alive else 0.0)


async def deliver(
    records: Sequence[tuple[str, bytes]], present: Callable[[], Outbox | None], in_flight: int, sent: Callable[[], None]
) -> Receipt:
    """Offer ``(tool, bytes)`` each to the outbox as there is room; the receipt has the answer to every one.

    Args:
        records: in the order in which each tool's go.
        present: the emitter's outbox. None while the background thread starts.
        in_flight: most records that may wait or be in flight.
        sent: called for each that is offered.

    Raises:
        SwitchgearError: the outbox ended before all were answered.
    """
    while (outbox := present()) is None:  # noqa: ASYNC110 - it takes a moment, once
        await asyncio.sleep(_POLL_S)
    receipt = Receipt(len(records))
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(index: int, reason: str | None) -> None:
        if reason is None:
            receipt.acknowledged += 1
        else:
            receipt.refused.append((index, reason))
        if receipt.complete and not done.done():
            done.set_result(None)

    try:
        for index, (tool, value) in enumerate(records):
            if outbox.pending >= in_flight or not outbox.connected:
                await outbox.room()
            sent()
            outbox.offer((Record(tool, value, functools.partial(answer, index)),))
        if records:
            await done
    except asyncio.CancelledError:
        raise SwitchgearError("The emitter was closed before Kafka acknowledged every record.") from None
    return receipt


class Flushed(Protocol):
    """What is asked of the emitter."""

    @property
    def ended(self) -> bool | None:
        """Whether every event was answered when it was closed; None while it is open."""

    def status(self) -> EmitterStatus:
        """As of now."""


def flushed(
    emitter: Flushed,
    buffer: Buffer,
    hurry: Callable[[], None],
    mark: Callable[[], Future[Mark] | None],
    hopeless: Callable[[], bool],
    timeout: float,
) -> bool:
    """Wait until everything that is in ``buffer`` now, or was before, has its answer. Not for event loops.

    Args:
        emitter: whose.
        buffer: of the emitter.
        hurry: has it send at once.
        mark: what its outbox holds, taken in its loop; None where that is not all that left the buffer.
        hopeless: whether to stop waiting before the time is over.
        timeout: seconds.

    Returns:
        False when ``timeout`` seconds did not suffice, or the emitter was closed, by whomever, before all had its answer.
    """
    deadline = time.monotonic() + timeout
    last = buffer.accepted
    marked: Future[Mark] | None = None
    while (status := emitter.status()).buffered or status.spooled:
        if emitter.ended is not None:
            return emitter.ended
        hurry()
        if marked is None and not status.spooled and buffer.left >= last:
            marked = mark()
        if marked is not None and marked.done() and not marked.exception() and marked.result().answered:
            return True
        if time.monotonic() >= deadline or hopeless():
            return False
        time.sleep(_POLL_S)
    return emitter.ended is not False  # a closed one has nothing left to wait for, lost events neither
