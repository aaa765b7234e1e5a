"""TakeOver: read what a new owner must know of Kafka, its rows first."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from faust.types import TP

from switchgear.fleet import Known, LogRecord, PublishedCircuit, read_published
from switchgear.fleet.log import dead_letter
from switchgear.fleet.rows import RowError
from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.records import check_readable, unreadable
from switchgear_schemas.settings import Settings
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.publisher import Publisher
from switchgear_stream.topic_reader import read_to_end, start

LIMIT_S: Final = 60.0
LOOK_EVERY: Final = 1_000
MAX_KEPT: Final = 1_000
"""Dead letters of one take-over; with more, the rest is counted."""
MAX_KEPT_BYTES: Final = 131_072
"""Of each: they are held together until the take-over ends."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the fold needs to know, and where the input partitions start."""

    fleet: Known
    starts: dict[TP, int]


class Refused:
    """Records of the state topics that no worker wrote: counted, and the first of them kept as dead letters."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter()

    def add(self, record: LogRecord, reason: str) -> None:
        """One more."""
        self.counts[record.topic] += 1
        if len(self.letters) < MAX_KEPT:
            self.letters.append(dead_letter(record, "", reason).fitted(MAX_KEPT_BYTES))


class TakeOver:
    """Reads the table's rows, the circuits topic and the ends of the input topics."""

    def __init__(self, settings: Settings, publisher: Publisher, table: DurableTable) -> None:
        self._settings = settings
        self._publisher = publisher
        self._table = table
        self.refused = Refused()

    def take_refused(self) -> Refused:
        """What was refused since the last call."""
        found, self.refused = self.refused, Refused()
        return found

    async def rows(self, partitions: Iterable[int]) -> None:
        """Restore the rows of ``partitions``, up to a mark of our own in each; those that memory holds already are not read again.

        Raises:
            TimeoutError, KafkaError, BrokerUnavailableError: the broker didn't take the marks, or gave no row for 60 s.
        """
        marks = await self._publisher.marks(sorted(partitions))
        table = self._table
        ends = {partition: mark + 1 for partition, mark in marks.items()}
        missing = {partition: ends[partition] for partition, mark in marks.items() if not table.holds(partition, mark)}
        if missing:
            await self._restore(missing)
        table.restored(ends)

    async def _restore(self, ends: dict[int, int]) -> None:
        """Of a changelog that is written to fast, millions of rows may not be compacted yet: limited is the silence, not the reading."""
        table, loop = self._table, asyncio.get_running_loop()
        records = read_to_end(self._settings, self._settings.topics.changelog, ends, ends=ends, timeout_s=None)
        async with asyncio.timeout(LIMIT_S) as silence, contextlib.aclosing(records):
            async for record in records:
                try:
                    check_readable(record)
                    table.restore(record.partition, record.key or b"", record.value)
                except InvalidExecutionError as error:
                    self.refused.add(record, error.reason)
                except RowError as error:
                    self.refused.add(record, error.message)
                if table.read % LOOK_EVERY == 0:
                    silence.reschedule(loop.time() + LIMIT_S)
                    await asyncio.sleep(0)  # heartbeats and the health of the process go on

    async def read(self, partitions: Iterable[int]) -> Found:
        """The newest record of each circuit of ``partitions``, and where the input topics end.

        Raises:
            BrokerUnavailableError: the broker didn't give them within 60 s.
        """
        owned = sorted(partitions)
        newest: dict[str, PublishedCircuit] = {}
        async for record in read_to_end(self._settings, self._settings.topics.circuits, owned, timeout_s=LIMIT_S):
            circuit, why = read_published(record.value), unreadable(record)
            if why is not None:
                self.refused.add(record, why)
            elif record.value and (circuit is None or not self._belongs(circuit, record)):
                self.refused.add(record, "the record is no circuit of ours, or of another partition")
            elif circuit is None:
                newest.pop((record.key or b"").decode(errors="replace"), None)
            elif circuit.circuit_id not in newest or circuit.version >= newest[circuit.circuit_id].version:
                newest[circuit.circuit_id] = circuit
        return await self._bounds(newest) if owned else Found(Known(newest), {})

    def _belongs(self, circuit: PublishedCircuit, record: LogRecord) -> bool:
        owner = owner_partition(circuit.tool_name, self._settings.topic_partitions)
        return circuit.key == record.key and owner == record.partition

    async def _bounds(self, newest: dict[str, PublishedCircuit]) -> Found:
        names = self._settings.topics
        consumer = AIOKafkaConsumer(**self._settings.kafka.options(), group_id=None)
        async with asyncio.timeout(LIMIT_S):
            await start(consumer)
            try:
                places = [
                    TopicPartition(topic, number)
                    for topic in (names.executions, names.commands)
                    for number in range(self._settings.topic_partitions)
                ]
                starts = await consumer.beginning_offsets(places)
                ends = await consumer.end_offsets(places)
            finally:
                await consumer.stop()
        by_topic = {
            topic: {tp.partition: offset for tp, offset in ends.items() if tp.topic == topic}
            for topic in (names.executions, names.commands)
        }
        known = Known(newest, by_topic[names.executions], by_topic[names.commands])
        return Found(known, {TP(*tp): offset for tp, offset in starts.items()})
