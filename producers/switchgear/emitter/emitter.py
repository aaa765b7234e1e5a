"""The emitter: takes events from any thread and any event loop, and sends them in a background thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from switchgear import arguments
from switchgear.arguments import FromEnv
from switchgear.emitter.buffer import LONGEST_WAIT_S, Buffer, Item, Wakeup, own
from switchgear.emitter.encode import encode_items
from switchgear.emitter.event import Event
from switchgear.emitter.outbox import KafkaDestination
from switchgear.emitter.record_batch import Mark, RecordBatch, check_record, total
from switchgear.emitter.sender import Destination, Sender
from switchgear.emitter.shutdown import EXIT_TIMEOUT_S, LastFlush, leave_at_exit, leave_at_sigterm
from switchgear.emitter.status import EmitterStatus, Receipt
from switchgear.emitter.submission import Submission
from switchgear.runtime.background_thread import Background
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.ids import mint_emitter_id

if TYPE_CHECKING:
    from switchgear.emitter.spool_router import SpoolRouter

log: Final = logging.getLogger("switchgear.emitter")

_AT_ONCE: Final = 2_000
_POLL_S: Final = 0.005
_PERSIST_LIMIT_S: Final = 2.0
_LOST: Final = "Switchgear closed with %d events that %s did not acknowledge (%s); they are probably lost%s"


class Emitter(FromEnv):
    """Sends executions to the topic ``<prefix>executions``, keyed by family or tool and acknowledged by every in-sync replica.

    :meth:`emit` returns at once and never raises. Use :meth:`send` and :meth:`submit` if you need the broker's answer.

    Args:
        connection: The brokers, or only their ``host:port``, comma-separated.
        topic_prefix: Before every topic name.
        family_pattern: Which tools belong to a family; the same in all processes.
        service: Name of the calling service, on every event.
        buffer_size: Most events in memory. A full buffer drops its oldest event.
        linger_s: Shortest time between two sends, in seconds. The first event after a pause and urgent events don't wait.
        in_flight: Most records sent to Kafka and not yet acknowledged.
        compression: None, gzip, snappy, lz4 or zstd (the last three need their library).
        spool_dir: Folder on a local disk where events wait while Kafka is down, and survive this process. None: in memory only.
            Processes can share it. Each has a file of its own in it, and takes over the files of processes that are gone.
        spool_bytes: Most bytes of this process in it, at least 16 MiB. A full spool drops its oldest events.
        spool_fsync: Wait for the disk after each write, so that a power cut loses nothing either.
        exit_timeout: Longest wait for the last events at the end of the process, in seconds. The wait is short if no broker can be reached.
        background: The thread to run in. Default: one of its own.
        destination: Where to send in place of the brokers.

    Raises:
        SwitchgearError: An argument is invalid. The message names it.
    """

    takes_tuples: ClassVar[bool] = True
    """The guard may append a plain success to ``buffer.items`` itself. A subclass that must see every event in emit() sets it to False."""

    _settings = ("service", "topic_prefix", "family_pattern", "spool_dir")

    def __init__(
        self,
        connection: KafkaConnection | str = "localhost:9092",
        *,
        topic_prefix: str = "switchgear.",
        family_pattern: str = DEFAULT_PATTERN,
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
        destination: Destination | None = None,
    ) -> None:
        arguments.sending(
            service=service,
            topic_prefix=topic_prefix,
            family_pattern=family_pattern,
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
        if destination is None:
            from switchgear_schemas.topics import TopicNames  # noqa: PLC0415 - imports aiokafka

            self._topic = TopicNames(prefix=topic_prefix).executions
            destination = KafkaDestination(self._connection, self._topic, compression, family_pattern)
        self._destination = destination
        self._service, self._linger_s, self._in_flight = service, linger_s, in_flight
        self.emitter_id = mint_emitter_id(service)
        self.buffer = Buffer(buffer_size)
        self._spool_router: SpoolRouter | None = None
        if spool_dir is not None:
            from switchgear.emitter.spool_router import SpoolRouter  # noqa: PLC0415 - most clients need no SQLite

            self._spool_router = SpoolRouter(
                self.buffer, spool_dir, spool_bytes, fsync=spool_fsync,
                until_events=self._until_events, linger=self._linger, encode=self._encode, forward=self._forward,
            )  # fmt: skip
        self._outbox = self._destination.sender(in_flight)
        self._wakeup = Wakeup()
        self.idle = True
        """The background thread waits for :meth:`wake`. It looks at the buffer once more after it sets this."""
        self.closed = False
        self.ended: bool | None = None
        """The result of the :meth:`close` that ended it. None while it is open."""
        self._ending = threading.RLock()  # of several closes at once one ends it; a signal handler may be among them
        self._encoding_failed = self._sent = 0
        self._complaints = BoundedLog(log)
        self.before_close: list[Callable[[], None]] = []
        """Called before the last events are sent, for events that others have not emitted yet."""
        self._background = background or Background("switchgear-emitter")
        self._background.add("emitter", self._work)
        self._background.on_start.append(leave_at_sigterm)
        self._background.after_death.append(self._note_death)
        call_in_child(self._reset_in_child)
        self._last_flush = LastFlush(exit_timeout)
        leave_at_exit(self)

    # -- for callers --------------------------------------------------------------------------------------------------

    def emit(self, event: Event | dict[str, Any], *, urgent: bool = False, ended_at: float | None = None) -> bool:
        """Put an event into the buffer. This never blocks and never raises.

        Args:
            event: An event, or a dict with the fields of a ToolExecution. Missing ids are added. A dict that is not an execution is
                counted as failed and logged. You may change the dict afterwards.
            urgent: Send it without the linger.
            ended_at: Becomes ``recorded_at`` if that is missing, in seconds since 1970. Default: now.

        Returns:
            True if the event was accepted, False if the emitter is closed.
        """
        if self.closed:
            return False
        buffer = self.buffer
        if len(buffer.items) >= buffer.limit:
            buffer.make_room()
            self._complaints.warning(f"the buffer of {buffer.limit} events is full, the oldest are dropped")
        if isinstance(event, dict):
            event = own(event)
        buffer.items.append((event, time.time() if ended_at is None else ended_at))
        if self.idle or urgent:
            self.wake(urgent)
        return True

    async def send(self, tool: str, value: bytes) -> None:
        """Send one encoded execution, and return when it is acknowledged. At most ``in_flight`` can be on their way.

        Raises:
            SwitchgearError: The broker refused it, or the emitter is closed.
        """
        receipt = await asyncio.wrap_future(self.submit([(tool, value)]))
        if receipt.refused:
            raise SwitchgearError(f"The event of {tool} was not accepted: {receipt.refused[0][1]}.")

    def submit(self, records: Sequence[tuple[str, bytes]]) -> Future[Receipt]:
        """Send encoded executions, unchanged and in the order of each tool.

        Args:
            records: ``(tool, bytes)`` each. You limit how many futures you have open.

        Returns:
            A future that is done when every record has its answer.

        Raises:
            SwitchgearError: The emitter is closed, a record is invalid, or the background thread can't be started.
        """
        if self.closed:
            raise SwitchgearError("This emitter is closed.", hint="Make a new one.")
        for number, record in enumerate(records):
            check_record(number, *record)
        return self._background.run(self._deliver(records))

    def connect(self, timeout: float) -> bool:
        """Start now and wait until a producer is ready. Not for event loops.

        Returns:
            False if it is not ready after ``timeout`` seconds.
        """
        self._background.loop()
        deadline = time.monotonic() + timeout
        while not self.connected and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return self.connected

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every event that was emitted before has its answer. Not for event loops.

        Returns:
            False if ``timeout`` seconds were not enough, or the emitter was closed with events that have no answer.
        """
        deadline = time.monotonic() + timeout
        last = self.buffer.accepted
        mark: Future[Mark] | None = None
        while (status := self.status()).buffered or status.spooled:
            if self.ended is not None:
                return self.ended
            if not self.closed:
                self.wake(urgent=True)
            if mark is None and not status.spooled and self.buffer.left >= last:
                mark = self._mark()
            if mark is not None and mark.done() and not mark.exception() and mark.result().answered:
                return True
            if time.monotonic() >= deadline or self._last_flush.hopeless(self._outbox):
                return False
            time.sleep(_POLL_S)
        return self.ended is not False  # after a close nothing waits, also if events were lost

    async def aflush(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as flush
        """Wait like :meth:`flush`, in an event loop."""
        return await asyncio.to_thread(self.flush, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush, then end the background thread. Events that could not be sent stay in the spool, or count as dropped.

        You may close it more than once, also at the same time. Every call returns the same.

        Returns:
            True if every accepted event was answered.
        """
        if self.ended is not None:
            return self.ended
        for callback in self.before_close:
            callback()
        flushed = self.flush(timeout)
        if self._ending.acquire(blocking=not self._background.here):  # the thread that ends it may join the background
            try:
                if self.ended is None:
                    self._end(flushed)
            finally:
                self._ending.release()
        return flushed if self.ended is None else self.ended

    def leave(self, waited_s: float) -> None:
        """Close at the end of the process, of which other emitters have used ``waited_s`` seconds."""
        limit_s = self._last_flush.begin(self._outbox, waited_s)
        for callback in self.before_close:
            callback()
        if len(self.buffer) and not self.closed:
            self._background.start_or_run_here(
                lambda: self._last_flush.hopeless(self._outbox) or not self.status().buffered, limit_s
            )
        if self._background.alive:
            with contextlib.suppress(SwitchgearError, RuntimeError):  # the thread has ended, so nothing can connect
                self._background.loop().call_soon_threadsafe(self._outbox.hurry)
        self.close(limit_s if self._background.alive else 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def status(self) -> EmitterStatus:
        """Return the counts and the condition at this moment."""
        outbox = self._outbox
        acknowledged, failed = outbox.acknowledged, outbox.failed + self._encoding_failed
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
            away_s=outbox.away_s(time.monotonic()),
            connected=outbox.connected,
            alive=self._background.alive,
            last_error=outbox.last_error,
        )

    @property
    def connected(self) -> bool:
        """Whether a producer is ready."""
        return self._outbox.connected

    def wake(self, urgent: bool) -> None:
        """Wake the background thread, starting it if it does not run. Call it after an append while ``idle`` is true."""
        self.idle = False
        try:
            self._background.loop().call_soon_threadsafe(self._wakeup.set, urgent)
        except BaseException as error:
            self.idle = True  # the next event tries again
            if not isinstance(error, (SwitchgearError, RuntimeError)):  # raised by a signal handler
                raise
            log.debug("the background loop was not woken: %s", error)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _end(self, flushed: bool) -> None:
        dropped = self.status().dropped
        self.ended = flushed
        self.closed = True
        if self._spool_router is not None and not flushed and self._background.alive:
            with contextlib.suppress(SwitchgearError, RuntimeError):  # the thread ended
                wait([self._background.run(self._spool_router.persist(self._outbox))], _PERSIST_LIMIT_S)
        status = self.status()
        if lost := status.dropped - dropped:
            why = f". Last error: {status.last_error}" if status.last_error else ""
            log.error(_LOST, lost, self._destination.name, self._destination.address, why)
        if self.buffer.dropped:
            log.error("%d events were dropped because the buffer was full", self.buffer.dropped)
        if status.spooled:
            log.warning("closed with %d events in the spool; the next process sends them", status.spooled)
        self._background.close(self._last_flush.join_limit_s(flushed=flushed))
        if self._spool_router is not None:
            self._spool_router.close(_PERSIST_LIMIT_S)

    def _mark(self) -> Future[Mark] | None:
        """Mark what is in the outbox. Return None if some events have left the buffer and are not there yet."""
        if self._spool_router is not None and self._spool_router.holds:
            return None
        try:
            return self._background.run(self._outbox.mark())
        except (SwitchgearError, RuntimeError):  # as in wake
            return None

    async def _deliver(self, records: Sequence[tuple[str, bytes]]) -> Receipt:
        """Offer submitted records to the outbox as there is room, and wait for every answer.

        Raises:
            SwitchgearError: The outbox ended before all were answered.
        """
        outbox, submission, offered = self._outbox, Submission(records), 0
        try:
            while offered < len(records):
                if not outbox.room_left:
                    await outbox.room()
                batches = submission.batches(offered, offered + outbox.room_left)
                count = total(batches)
                offered += count
                self._sent += count
                outbox.offer(batches)
            if records:
                await submission.done
        except asyncio.CancelledError:
            raise SwitchgearError("The emitter was closed before every record was acknowledged.") from None
        return submission.receipt

    async def _work(self) -> None:
        """The background job: keep a producer ready, and move events from the buffer to it."""
        if self._outbox.started:  # it failed: what was in flight has no answer, and is lost unless it is on disk
            lost = self._outbox
            self._outbox = self._destination.sender(self._in_flight)
            on_disk = 0 if self._spool_router is None else self._spool_router.in_flight
            self._outbox.acknowledged = lost.acknowledged
            self._outbox.failed = lost.failed + max(0, lost.pending - on_disk)
        outbox = self._outbox
        self._wakeup = Wakeup()
        async with asyncio.TaskGroup() as group:
            group.create_task(outbox.run())
            group.create_task(self._drain(outbox) if self._spool_router is None else self._spool_router.run(outbox))

    async def _drain(self, outbox: Sender) -> None:
        while True:
            await outbox.room()
            await self._forward(outbox, _AT_ONCE, LONGEST_WAIT_S)

    async def _forward(self, outbox: Sender, most: int, limit_s: float) -> None:
        """Move up to ``most`` events to the outbox, or wait for one, at most ``limit_s`` seconds."""
        taken = self.buffer.take(most)
        if not taken:
            await self._until_events(limit_s)
            return
        outbox.offer(self._encode(taken))
        if len(taken) < most:
            await self._linger()
        else:
            await asyncio.sleep(0)

    async def _until_events(self, limit_s: float) -> None:
        self._wakeup.clear()
        self.idle = True
        if not len(self.buffer):  # this second look closes the race with emit()
            await self._wakeup.wait(limit_s)
        self.idle = False

    async def _linger(self) -> None:
        await self._wakeup.linger(self._linger_s)

    def _encode(self, items: Sequence[Item]) -> list[RecordBatch]:
        return encode_items(
            items,
            emitter_id=self.emitter_id,
            service=self._service,
            clock_offset=time.time() - time.monotonic(),
            failed=self._not_encoded,
        )

    def _not_encoded(self, error: Exception) -> None:
        self._encoding_failed += 1
        log.error("an event was not sent: %s", error)

    def _note_death(self) -> None:
        """Let the next event start the thread again."""
        self.idle = True

    def _reset_in_child(self) -> None:
        """Take another identity in a forked child. The parent sends the parent's events."""
        self.buffer.clear()
        self._outbox = self._destination.sender(self._in_flight)
        self.idle, self._ending = True, threading.RLock()
        self.ended = True if self.closed else None
        self._encoding_failed = self._sent = 0
        self.emitter_id = mint_emitter_id(self._service)
