"""What a new owner reads from Kafka: its rows, the published circuits, and the ends of its input."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from aiokafka import TopicPartition
from faust.types import TP

from switchgear.fleet import Known, LogRecord, PublishedCircuit, read_published
from switchgear.fleet.log import dead_letter
from switchgear.fleet.rows import RowError
from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.partitioner import may_have_owned, partition_of
from switchgear_schemas.records import check_readable, unreadable
from switchgear_schemas.settings import Settings
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.moving import RowMove
from switchgear_stream.publisher import Publisher
from switchgear_stream.topic_reader import read_bounds, read_to_end

LIMIT_S: Final = 60.0
PAUSE_EVERY: Final = 1_000
MAX_KEPT: Final = 1_000
"""Dead letters of one take-over. Beyond that, records are only counted."""
MAX_KEPT_BYTES: Final = 131_072
"""Bytes of each. They are all in memory until the take-over ends."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the fold needs to know, and the first offset of each input partition."""

    fleet: Known
    starts: dict[TP, int]


class RefusedRecords:
    """Records of the state topics that no worker wrote. All are counted. The first of them become dead letters."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter()

    def add(self, record: LogRecord, reason: str) -> None:
        """Add a record."""
        self.counts[record.topic] += 1
        if len(self.letters) < MAX_KEPT:
            self.letters.append(dead_letter(record, "", reason).truncate(MAX_KEPT_BYTES))


class TakeOver:
    """Restores the table's rows, and reads the circuits topic and the bounds of the input topics."""

    def __init__(self, settings: Settings, publisher: Publisher, table: DurableTable) -> None:
        self._settings = settings
        self._publisher = publisher
        self._table = table
        self._move = RowMove(settings, publisher, table)
        self.refused = RefusedRecords()

    def take_refused(self) -> RefusedRecords:
        """Return what was refused since the last call."""
        found, self.refused = self.refused, RefusedRecords()
        return found

    async def rows(self, partitions: Iterable[int]) -> None:
        """Restore the rows of ``partitions`` up to a mark that this worker writes to each. Rows in memory are not read again.

        Raises:
            TimeoutError, KafkaError, BrokerUnavailableError: The broker did not take the marks, or delivered no row for 60 s.
        """
        marks = await self._publisher.marks(sorted(partitions))
        table = self._table
        ends = {partition: mark + 1 for partition, mark in marks.items()}
        missing = {partition: ends[partition] for partition, mark in marks.items() if not table.holds(partition, mark)}
        if missing:
            await self._restore(missing)
        table.restored(ends)
        await self._move.begin(ends)

    async def finish(self) -> None:
        """Complete the move of rows from other partitions, after the circuits are published.

        Raises:
            TimeoutError, KafkaError: The broker did not take the rows.
        """
        await self._move.finish()

    async def _restore(self, ends: dict[int, int]) -> None:
        """Read the rows up to ``ends``. The limit is on silence, not on the whole: millions of rows may not be compacted yet."""
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
                if table.read % PAUSE_EVERY == 0:
                    silence.reschedule(loop.time() + LIMIT_S)
                    await asyncio.sleep(0)  # let the watchdog and the HTTP server run

    async def read(self, partitions: Collection[int]) -> Found:
        """Return the newest record of each circuit of ``partitions``, and the bounds of the input topics.

        Raises:
            BrokerUnavailableError: The broker did not deliver the records within 60 s.
            TimeoutError, KafkaError: The broker did not return the bounds within 60 s.
        """
        owned = sorted(partitions)
        here: dict[str, PublishedCircuit] = {}
        elsewhere: dict[str, PublishedCircuit] = {}
        read = range(self._settings.topic_partitions) if self._move.partitions else owned
        async for record in read_to_end(self._settings, self._settings.topics.circuits, read, timeout_s=LIMIT_S):
            circuit, why = read_published(record.value), unreadable(record)
            owner = None if circuit is None else self._owner(circuit, record)
            if owner is not None and owner != record.partition:
                if circuit is not None and owner in self._move.partitions:
                    _keep_newest(elsewhere, circuit)
            elif record.partition not in partitions:
                pass  # another worker reads it
            elif why is not None:
                self.refused.add(record, why)
            elif record.value and (circuit is None or owner is None):
                self.refused.add(record, "the record isn't a circuit, or belongs to another partition")
            elif circuit is None:
                here.pop((record.key or b"").decode(errors="replace"), None)
            else:
                _keep_newest(here, circuit)
        return await self._bounds(here, elsewhere) if owned else Found(Known(here), {})

    def _owner(self, circuit: PublishedCircuit, record: LogRecord) -> int | None:
        """Return the partition in which the record belongs. None if no worker wrote it to where it is."""
        count = self._settings.topic_partitions
        owner = partition_of(circuit.tool_name, count, self._settings.family_pattern)
        written = owner == record.partition or may_have_owned(record.partition, circuit.tool_name, count)
        return owner if written and circuit.key == record.key else None

    async def _bounds(self, here: dict[str, PublishedCircuit], elsewhere: dict[str, PublishedCircuit]) -> Found:
        names = self._settings.topics
        async with asyncio.timeout(LIMIT_S):
            there = await self._publisher.leaders()  # there may be more partitions than topic_partitions
        inputs = (names.executions, names.commands)
        places = [TopicPartition(topic, number) for topic in inputs for number in sorted(there.get(topic, {}))]
        starts, ends = await read_bounds(self._settings, places, timeout_s=LIMIT_S)
        known = Known(
            here,
            {place.partition: end for place, end in ends.items() if place.topic == names.executions},
            {place.partition: end for place, end in ends.items() if place.topic == names.commands},
            elsewhere,
        )
        return Found(known, {TP(*tp): offset for tp, offset in starts.items()})


def _keep_newest(found: dict[str, PublishedCircuit], circuit: PublishedCircuit) -> None:
    known = found.get(circuit.circuit_id)
    if known is None or circuit.version >= known.version:
        found[circuit.circuit_id] = circuit
