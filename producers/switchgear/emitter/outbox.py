"""The asynchronous core of the emitter: records in, acknowledgements out. It lives in one event loop.

Each partition has a queue with one batch in flight. aiokafka has one request per broker in flight anyway, so the next batches fill
meanwhile, and the order of each tool is kept through every retry. Batches are made with ``create_batch`` and ``send_batch``, which
is much cheaper than ``send``.

The producer is idempotent: what aiokafka retries by itself is written once. When a batch fails for good its producer is retired
(see ``send_failure``): another one takes over at once, and the old one is closed when its last batch is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from switchgear.emitter.producer import Link, open_link
from switchgear.emitter.record_batch import STOPPED, Mark, PartitionQueue, RecordBatch, fill, singles, total
from switchgear.emitter.send_failure import Verdict, is_outage, judge
from switchgear.runtime.background_thread import stop_if_cancelled
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.enums import MAX_EVENT_BYTES
from switchgear_schemas.families import DEFAULT_PATTERN

log: Final = logging.getLogger("switchgear.emitter")

LARGEST_RECORD: Final = 4 * MAX_EVENT_BYTES
"""Larger records are refused here. A request above the broker's limit would lose the connection."""
AWAY_AFTER_S: Final = 1.0
"""Kafka counts as down when it has not answered for this time. A start or a change of leader usually takes less."""
_ATTEMPTS: Final = 6
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class Outbox:
    """Sends records to their tool's partition. At most ``limit`` records wait or are in flight. It runs once."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        *,
        limit: int,
        compression: str | None,
        family_pattern: str = DEFAULT_PATTERN,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self.limit = limit
        self._compression = compression
        self._family_pattern = family_pattern
        self._queues: dict[int, PartitionQueue] = {}
        self._partitions = 1
        self._link: Link | None = None
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._space = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress_at = math.inf
        self.started = False
        self.pending = 0
        self.acknowledged = 0
        self.failed = 0
        self.failed_attempts = 0
        """Failed attempts to connect since the last connection. It may be reset to 0."""
        self.last_error: str | None = None

    @property
    def connected(self) -> bool:
        """Whether a producer is ready."""
        return self._link is not None

    @property
    def room_left(self) -> int:
        """How many records may be offered now."""
        return 0 if self._link is None else max(0, self.limit - self.pending)

    async def mark(self) -> Mark:
        """Return a mark of what is here now."""
        return Mark([(queue, queue.offered) for queue in self._queues.values()])

    def hurry(self) -> None:
        """Try to connect now, without waiting for the end of the pause."""
        self._hurry.set()

    def silent_s(self, now: float) -> float:
        """Return how long Kafka has not answered although a connection or an acknowledgement is awaited, in seconds."""
        return max(0.0, now - self._progress_at) if self._link is None or self.pending else 0.0

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

    async def run(self) -> None:
        """Keep a producer ready until cancelled. The pause between attempts to connect grows, with jitter."""
        pause = _FIRST_PAUSE_S
        self.started = True
        self._progress_at = time.monotonic()
        try:
            while True:
                try:
                    self._link = await open_link(self._connection, self._topic, compression=self._compression)
                except Exception as error:  # noqa: BLE001 - every failure to connect is retried
                    self.failed_attempts += 1
                    self._note(f"Kafka at {self._connection.bootstrap_servers} is not usable: {error}", pause)
                    stop_if_cancelled()
                    pause = await self._paused(pause)
                    continue
                pause = _FIRST_PAUSE_S
                self.failed_attempts = 0
                log.info("connected to Kafka at %s", self._connection.bootstrap_servers)
                self._wanted.clear()
                self._progress_at = time.monotonic()
                self._space.set()
                for partition in list(self._queues):
                    self._pump(partition)
                await self._wanted.wait()
        finally:
            await self._end()

    async def _paused(self, pause: float) -> float:
        """Wait about ``pause`` seconds, or until :meth:`hurry`. Return the next pause."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause * random.uniform(0.5, 1.5)):  # noqa: S311 - spreads reconnects
                await self._hurry.wait()
                self._hurry.clear()
                return _FIRST_PAUSE_S
        return min(2 * pause, _LONGEST_PAUSE_S)

    async def room(self) -> None:
        """Wait until it is connected and has room for a record."""
        while self._link is None or self.pending >= self.limit:
            self._space.clear()
            await self._space.wait()

    def offer(self, batches: Iterable[RecordBatch]) -> None:
        """Queue records. Call :meth:`room` before. Records that are too large are refused at once."""
        from switchgear_schemas.partitioner import partition_of  # noqa: PLC0415 - imports aiokafka

        if not self.pending and self._link is not None:
            self._progress_at = time.monotonic()
        if self._link is not None:
            self._partitions = self._link.partitions() or self._partitions
        touched = set()
        queues: dict[str, PartitionQueue] = {}  # by tool: many records have few tools
        for batch in self._sendable(batches):
            queue = queues.get(batch.tool)
            if queue is None:
                partition = partition_of(batch.tool, self._partitions, self._family_pattern)
                touched.add(partition)
                queue = queues[batch.tool] = self._queues.setdefault(partition, PartitionQueue())
            queue.add(batch)
        for partition in touched:
            self._pump(partition)

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

    def _pump(self, partition: int) -> None:
        queue = self._queues[partition]
        if queue.waiting and not queue.busy and self._link is not None:
            queue.busy = True
            task = asyncio.get_running_loop().create_task(self._ship(partition, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ship(self, partition: int, queue: PartitionQueue) -> None:
        """Send the queue's records, batch after batch, until it is empty or the producer is retired."""
        try:
            while queue.waiting and (link := self._link) is not None:
                kafka_batch = link.producer.create_batch()
                most = 1 if queue.one_by_one else sys.maxsize
                batches = queue.in_flight = fill(kafka_batch, queue.waiting, int(time.time() * 1000), most=most)
                try:
                    async with link.slots:
                        await (await link.producer.send_batch(kafka_batch, self._topic, partition=partition))
                except asyncio.CancelledError:
                    queue.in_flight = []
                    queue.waiting.extendleft(reversed(batches))
                    raise
                except Exception as error:  # noqa: BLE001 - judged by its type
                    await self._failed(queue, singles(batches), error, link)
                else:
                    queue.in_flight = []
                    queue.attempts = 0
                    sent = total(batches)
                    queue.one_by_one = max(0, queue.one_by_one - sent)
                    self._acknowledge(batches, sent)
                    queue.answered += sent  # last: a flush in another thread ends with it and then reads the counts
        finally:
            queue.busy = False

    def _acknowledge(self, batches: list[RecordBatch], sent: int) -> None:
        self.acknowledged += sent
        self._settle(sent)
        for batch in batches:
            if batch.answer is not None:
                batch.answer(None)

    def _refuse(self, record: RecordBatch, reason: str) -> None:
        self.failed += 1
        self.last_error = f"an event of {record.tool:.200} was refused: {reason}"
        log.error("%s", self.last_error)
        self._settle(1)
        if record.answer is not None:
            record.answer(reason)

    def _settle(self, count: int) -> None:
        self.pending -= count
        self._progress_at = time.monotonic()
        self._space.set()

    async def _failed(self, queue: PartitionQueue, records: list[RecordBatch], error: Exception, link: Link) -> None:
        """Put the records of a failed batch back, or refuse them, and retire the producer."""
        self._retire(link)
        queue.in_flight = []
        queue.attempts += 1
        verdict = judge(error, len(records))
        missing = self._connection.missing_permission(error, "Write", self._topic)
        reason = f"{type(error).__name__}: {error}" if missing is None else str(missing).rstrip(".")
        self._note(f"a batch of {len(records)} events failed: {reason}; {verdict.value}", 0)
        hopeless = queue.attempts > _ATTEMPTS and verdict is not Verdict.SPLIT and not is_outage(error)
        if verdict is Verdict.REFUSE or hopeless:
            queue.attempts = 0
            queue.one_by_one = max(0, queue.one_by_one - len(records))
            for record in records:
                self._refuse(record, reason)
            queue.answered += len(records)
            return
        for record in records:
            record.resent = record.resent or verdict is Verdict.UNSURE
        queue.waiting.extendleft(reversed(records))
        if verdict is Verdict.SPLIT:
            queue.one_by_one = len(records)
        else:
            await asyncio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**queue.attempts))

    def _retire(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            self._wanted.set()
            task = asyncio.get_running_loop().create_task(link.close_when_idle())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _note(self, message: str, pause: float) -> None:
        if message != self.last_error:
            log.warning("%s%s", message, f"; trying again in {pause:.1f} s" if pause else "")
        self.last_error = message

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)
        link, self._link = self._link, None
        if link is not None:
            await link.close(1.0)
        for queue in self._queues.values():
            for batch in queue.waiting:
                if batch.answer is not None:
                    batch.answer(STOPPED)
            queue.waiting.clear()
