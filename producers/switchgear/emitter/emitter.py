"""Emitter: the front that callers meet, from any thread and any event loop."""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self

from switchgear.background import Background
from switchgear.emitter.buffer import Buffer, Item
from switchgear.emitter.encode import encode_event, encode_fields
from switchgear.emitter.event import Event
from switchgear.emitter.outbox import Outbox, Record
from switchgear.emitter.receipt import Receipt
from switchgear.emitter.status import EmitterStatus
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.ids import mint_emitter_id
from switchgear_schemas.topics import TopicNames

log: Final = logging.getLogger("switchgear.emitter")

_open: Final[weakref.WeakSet[Emitter]] = weakref.WeakSet()
_AT_ONCE: Final = 2_000
_POLL_S: Final = 0.005
_REPORT_DROPS_S: Final = 10.0


class Emitter:
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
        exit_timeout: longest wait for the last events when the interpreter ends, in seconds; without a connection it doesn't wait.
        background: the thread to run in; an own one unless given.
    """

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
        exit_timeout: float = 2.0,
        background: Background | None = None,
    ) -> None:
        self._connection = KafkaConnection(connection) if isinstance(connection, str) else connection
        self._topic = TopicNames(prefix=topic_prefix).executions
        self._service = service
        self._linger_s = linger_s
        self._in_flight = in_flight
        self._compression = compression
        self._exit_timeout = exit_timeout
        self.emitter_id = mint_emitter_id(service)
        self._buffer = Buffer(buffer_size)
        self._items, self._limit = self._buffer.items, buffer_size  # at hand: emit() is on every call's path
        self._outbox: Outbox | None = None
        self._wake: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        self._idle = True
        self._closed = False
        self._encoding_failed = 0
        self._reported_drops = 0
        self._next_drop_report = 0.0
        self._lost_counts = (0, 0)
        self._sent = 0
        self._background = background or Background("switchgear-emitter")
        self._background.add("emitter", self._work)
        self._background.after_fork.append(self._forked)
        self._background.after_death.append(self._orphaned)
        _open.add(self)

    # -- callers ------------------------------------------------------------------------------------------------------

    def emit(self, event: Event | dict[str, Any], *, urgent: bool = False, ended_at: float | None = None) -> bool:
        """Put an event into the buffer: no I/O, no waiting, no exception. ``urgent`` events skip the linger.

        A dict is a ToolExecution's fields; what is missing is minted, what is not an execution is counted as failed and
        logged. ``ended_at`` (seconds since 1970, default now) becomes ``recorded_at`` where that is absent.

        Returns:
            True when accepted; False when the emitter is closed.
        """
        if self._closed:
            return False
        if len(self._items) >= self._limit:
            self._make_room()
        self._items.append((event, time.time() if ended_at is None else ended_at))
        if self._idle or urgent:
            self._rouse(urgent)
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
            SwitchgearError: the emitter is closed.
        """
        if self._closed:
            raise SwitchgearError("This emitter is closed.", hint="Make a new one.")
        self._background.loop()
        return self._background.run(self._deliver(records))

    def connect(self, timeout: float) -> bool:
        """Start now and wait until a producer is ready; False when ``timeout`` seconds did not suffice. Not for event loops."""
        self._background.loop()
        deadline = time.monotonic() + timeout
        while not self.connected and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return self.connected

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until nothing is buffered or in flight; False when ``timeout`` seconds did not suffice. Not for event loops."""
        deadline = time.monotonic() + timeout
        while self.status().buffered:
            if not self._closed:
                self._rouse(urgent=True)
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    async def aflush(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as flush
        """:meth:`flush` for event loops."""
        return await asyncio.to_thread(self.flush, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush, then end the background thread. What could not be sent counts as dropped. Closing twice is fine.

        Returns:
            True when every accepted event was answered.
        """
        if self._closed:
            return not self.status().buffered
        flushed = self.flush(timeout)
        left = self.status().buffered
        self._closed = True
        if not flushed:
            log.error("closed with %d events that Kafka did not acknowledge", left)
        self._background.close(5.0)
        return flushed

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
        emitted = self._buffer.accepted + self._sent
        dropped = self._buffer.dropped
        buffered = max(0, emitted - acknowledged - failed - dropped)
        if self._closed:
            dropped, buffered = dropped + buffered, 0
        return EmitterStatus(
            emitted=emitted,
            acknowledged=acknowledged,
            dropped=dropped,
            failed=failed,
            buffered=buffered,
            connected=outbox is not None and outbox.connected,
            alive=self._background.alive,
            last_error=None if outbox is None else outbox.last_error,
        )

    @property
    def connected(self) -> bool:
        """A producer is ready."""
        return self._outbox is not None and self._outbox.connected

    # -- the background loop ------------------------------------------------------------------------------------------

    def _rouse(self, urgent: bool) -> None:
        self._idle = False
        try:
            loop = self._background.loop()
            loop.call_soon_threadsafe(self._signal, urgent)
        except (
            SwitchgearError,
            RuntimeError,
        ) as error:  # closing, or the thread died this instant: the next event tries again
            self._idle = True
            log.debug("the background loop was not woken: %s", error)

    def _signal(self, urgent: bool) -> None:
        if self._wake is not None and self._hurry is not None:
            self._wake.set()
            if urgent:
                self._hurry.set()

    async def _work(self) -> None:
        """The background job: a producer kept ready, and the buffer drained into it."""
        if self._outbox is not None:  # started again after a death: what was in flight has no answer
            self._lost_counts = (
                self._lost_counts[0] + self._outbox.acknowledged,
                self._lost_counts[1] + self._outbox.failed + self._outbox.pending,
            )
        outbox = self._outbox = Outbox(
            self._connection, self._topic, limit=self._in_flight, compression=self._compression
        )
        self._wake, self._hurry = asyncio.Event(), asyncio.Event()
        self._wake.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(outbox.run())
            group.create_task(self._drain(outbox, self._wake, self._hurry))

    async def _drain(self, outbox: Outbox, wake: asyncio.Event, hurry: asyncio.Event) -> None:
        while True:
            await outbox.room()
            hurry.clear()
            taken = self._buffer.take(_AT_ONCE)
            if not taken:
                wake.clear()
                self._idle = True
                if not len(self._buffer):  # else one came between: a second look closes the race with emit()
                    await wake.wait()
                self._idle = False
                continue
            outbox.offer([record for item in taken if (record := self._encode(item)) is not None])
            if len(taken) < _AT_ONCE and self._linger_s > 0:
                try:
                    async with asyncio.timeout(self._linger_s):
                        await hurry.wait()
                except TimeoutError:
                    pass
            else:
                await asyncio.sleep(0)

    def _encode(self, item: Item) -> Record | None:
        event, ended_at = item
        try:
            if isinstance(event, Event):
                value = encode_event(event, ended_at, emitter_id=self.emitter_id, service=self._service)
                return Record(event.tool_name, value)
            tool, value = encode_fields(event, ended_at, emitter_id=self.emitter_id, service=self._service)
            return Record(tool, value)
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the others must go
            self._encoding_failed += 1
            log.error("an event was not sent: %s", error)  # noqa: TRY400 - the trace shows nothing but us
            return None

    async def _deliver(self, records: Sequence[tuple[str, bytes]]) -> Receipt:
        outbox = self._outbox
        while outbox is None:  # the thread has just started
            await asyncio.sleep(_POLL_S)
            outbox = self._outbox
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
                if outbox.pending >= self._in_flight or not outbox.connected:
                    await outbox.room()
                self._sent += 1
                outbox.offer((Record(tool, value, functools.partial(answer, index)),))
            if records:
                await done
        except asyncio.CancelledError:
            raise SwitchgearError("The emitter was closed before Kafka acknowledged every record.") from None
        return receipt

    def _make_room(self) -> None:
        """Give up the oldest event, and say so at once the first time, in summary every ten seconds after that."""
        self._buffer.make_room()
        dropped = self._buffer.dropped
        if dropped > self._reported_drops and time.monotonic() >= self._next_drop_report:
            log.error(
                "%d events were dropped, %d since the last report: the buffer of %d is full",
                dropped,
                dropped - self._reported_drops,
                self._buffer.limit,
            )
            self._reported_drops = dropped
            self._next_drop_report = time.monotonic() + _REPORT_DROPS_S

    def _forked(self) -> None:
        """In a child: the parent's events are the parent's to send, and the identity is its own."""
        self._buffer.clear()
        self._outbox = self._wake = self._hurry = None
        self._idle = True
        self._encoding_failed = self._sent = self._reported_drops = 0
        self._lost_counts = (0, 0)
        self.emitter_id = mint_emitter_id(self._service)

    def _orphaned(self) -> None:
        """The thread died: let the next event start it again."""
        self._idle = True

    def _exit(self) -> None:
        status = self.status()
        self.close(self._exit_timeout if status.connected else min(0.2, self._exit_timeout))


def _close_all() -> None:
    for emitter in list(_open):
        emitter._exit()  # noqa: SLF001 - the hook of this class


atexit.register(_close_all)
