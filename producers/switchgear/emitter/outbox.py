"""The asynchronous core of the emitter: records in, acknowledgements out. It lives in one event loop.

Each partition has a queue with one batch in flight. aiokafka has one request per broker in flight anyway, so the next batches fill
meanwhile, and the order of each tool is kept through every retry. Batches are made with ``create_batch`` and ``send_batch``, which
is much cheaper than ``send``.

The producer is idempotent: what aiokafka retries by itself is written once. When a batch fails for good its producer is retired
(see ``send_failure``): another one takes over at once, and the old one is closed when its last batch is answered.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from switchgear.emitter.producer import Link, open_link
from switchgear.emitter.record_batch import PartitionQueue, RecordBatch, fill, singles, total
from switchgear.emitter.send_failure import Verdict, is_outage, judge
from switchgear.emitter.sender import Sender
from switchgear.runtime import kafka_log
from switchgear.runtime.background_thread import stop_if_cancelled
from switchgear.runtime.backoff import Backoff, backoff_s
from switchgear.runtime.tasks import Tasks
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.families import DEFAULT_PATTERN

log: Final = logging.getLogger("switchgear.emitter")

_ATTEMPTS: Final = 6
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class Outbox(Sender):
    """Sends records to their tool's partition. At most ``limit`` records wait or are in flight. It runs once.

    Args:
        connection: The brokers.
        topic: The topic of the records.
        limit: The most records that wait or are in flight.
        compression: As aiokafka names it; None for no compression.
        family_pattern: What a tool's partition is chosen by.
        linger_s: How long a batch waits for more records, in seconds.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        *,
        limit: int,
        compression: str | None,
        family_pattern: str = DEFAULT_PATTERN,
        linger_s: float = 0.0,
    ) -> None:
        super().__init__(limit)
        self._linger_s = linger_s
        self._connection = connection
        self._topic = topic
        self._compression = compression
        self._family_pattern = family_pattern
        self._partitions = 1
        self.knows_partitions = False
        """Whether it was connected once. Records that are offered before may go to a wrong partition."""
        self._link: Link | None = None
        self._wanted = asyncio.Event()
        self._tasks = Tasks()

    @property
    def connected(self) -> bool:
        """Whether a producer is ready."""
        return self._link is not None

    async def run(self) -> None:
        """Keep a producer ready until cancelled. The pause between attempts to connect grows, with jitter."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, spread=(0.5, 1.5))
        self.started = True
        kafka_log.install(self._connection.bootstrap_servers)
        self._progress_at = time.monotonic()
        try:
            while True:
                try:
                    self._link = await open_link(self._connection, self._topic, compression=self._compression)
                except Exception as error:  # noqa: BLE001 - every failure to connect is retried
                    self.failed_attempts += 1
                    pause = backoff.next_s()
                    self._note(f"Kafka at {self._connection.bootstrap_servers} is not usable: {error}", pause)
                    stop_if_cancelled()
                    if await self._paused(pause):
                        backoff.reset()
                    continue
                backoff.reset()
                kafka_log.answered()
                self.failed_attempts = 0
                self.knows_partitions = True
                log.info("connected to Kafka at %s", self._connection.bootstrap_servers)
                self._wanted.clear()
                self._progress_at = time.monotonic()
                self._space.set()
                for partition in list(self._queues):
                    self._pump(partition)
                await self._wanted.wait()
        finally:
            await self._end()

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

    def _pump(self, partition: int) -> None:
        queue = self._queues[partition]
        if queue.waiting and not queue.busy and self._link is not None:
            queue.busy = True
            self._tasks.start(self._ship(partition, queue))

    async def _ship(self, partition: int, queue: PartitionQueue) -> None:
        """Send the queue's records, batch after batch, until it is empty or the producer is retired."""
        try:
            while queue.waiting and self._link is not None:
                if self._linger_s:
                    await asyncio.sleep(self._linger_s)
                link = self._link
                if link is None or not queue.waiting:  # meanwhile
                    continue
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
                    kafka_log.answered()
                    sent = total(batches)
                    queue.one_by_one = max(0, queue.one_by_one - sent)
                    self._acknowledge(batches, sent)
                    queue.answered += sent  # last: a flush in another thread ends with it and then reads the counts
        finally:
            queue.busy = False

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
            await asyncio.sleep(backoff_s(queue.attempts + 1, _FIRST_PAUSE_S, _LONGEST_PAUSE_S))

    def _retire(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            self._wanted.set()
            self._tasks.start(link.close_when_idle())

    async def _end(self) -> None:
        await self._tasks.end(2)
        link, self._link = self._link, None
        if link is not None:
            await link.close(1.0)
        self._stop_waiting()


class KafkaDestination(NamedTuple):
    """The executions topic of a cluster."""

    connection: KafkaConnection
    topic: str
    compression: str | None
    family_pattern: str

    @property
    def name(self) -> str:
        """Kafka."""
        return "Kafka"

    @property
    def address(self) -> str:
        """The addresses of the brokers."""
        return self.connection.bootstrap_servers

    def sender(self, limit: int) -> Outbox:
        """Return an outbox for at most ``limit`` records at a time."""
        return Outbox(
            self.connection, self.topic, limit=limit, compression=self.compression, family_pattern=self.family_pattern
        )
