"""What a new owner reads from Kafka: its rows, the published circuits, and the ends of its input."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from faust.types import TP

from switchgear.fleet import Known, LogRecord, PublishedCircuit, read_published
from switchgear.fleet.log import dead_letter
from switchgear.fleet.rows import Placement, RowError, placement_key
from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.families import canonical_pattern
from switchgear_schemas.partitioner import may_have_owned, partition_of
from switchgear_schemas.records import check_readable, unreadable
from switchgear_schemas.settings import Settings
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.placement import check_placed
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
        self._new: frozenset[int] = frozenset()
        """The owned partitions that have no row yet that says how their circuits are placed."""
        self.refused = RefusedRecords()

    def take_refused(self) -> RefusedRecords:
        """Return what was refused since the last call."""
        found, self.refused = self.refused, RefusedRecords()
        return found

    async def rows(self, partitions: Iterable[int]) -> None:
        """Restore the rows of ``partitions`` up to a mark that this worker writes to each. Rows in memory are not read again.

        Raises:
            TimeoutError, KafkaError, BrokerUnavailableError: The broker did not take the marks, or delivered no row for 60 s.
            SettingsError: The rows are of another ``family_pattern`` or ``topic_partitions`` than this worker's.
        """
        marks = await self._publisher.marks(sorted(partitions))
        table = self._table
        ends = {partition: mark + 1 for partition, mark in marks.items()}
        missing = {partition: ends[partition] for partition, mark in marks.items() if not table.holds(partition, mark)}
        if missing:
            await self._read_rows(missing, missing, self._restore)
        table.restored(ends)
        await self._check_placed(ends)

    async def finish(self) -> None:
        """Note in the new partitions how their circuits are placed, after these are published.

        Raises:
            TimeoutError, KafkaError: The broker did not take the rows.
        """
        settings = self._settings
        pattern = canonical_pattern(settings.family_pattern)
        for partition in sorted(self._new):
            row = Placement(partition=partition, pattern=pattern, partitions=settings.topic_partitions)
            base = await self._publisher.rows(partition, [(row.key, row.encode())])
            self._table.write(partition, row.key, row.encode())
            self._table.wrote(partition, base, 1)
        self._new = frozenset()

    async def _check_placed(self, owned: Collection[int]) -> None:
        """Check how the circuits are placed. If an owned partition does not say it, look into those of the others, too."""
        rows = self._table.rows
        for partition in owned:
            check_placed(placement_key(partition), rows.get(placement_key(partition)), self._settings)
        self._new = frozenset(partition for partition in owned if placement_key(partition) not in rows)
        others = [partition for partition in range(self._settings.topic_partitions) if partition not in owned]
        if self._new and others:
            await self._read_rows(others, None, self._check)

    def _check(self, record: ConsumerRecord[Any, Any]) -> None:
        self._table.read += 1
        check_placed(record.key or b"", record.value, self._settings)

    def _restore(self, record: ConsumerRecord[Any, Any]) -> None:
        try:
            check_readable(record)
            self._table.restore(record.partition, record.key or b"", record.value)
        except InvalidExecutionError as error:
            self.refused.add(record, error.reason)
        except RowError as error:
            self.refused.add(record, error.message)

    async def _read_rows(
        self,
        partitions: Iterable[int],
        ends: Mapping[int, int] | None,
        use: Callable[[ConsumerRecord[Any, Any]], None],
    ) -> None:
        """Read rows up to ``ends``. The limit is on silence, not on the whole: millions of rows may not be compacted yet."""
        loop, count = asyncio.get_running_loop(), 0
        records = read_to_end(self._settings, self._settings.topics.changelog, partitions, ends=ends, timeout_s=None)
        async with asyncio.timeout(LIMIT_S) as silence, contextlib.aclosing(records):
            async for record in records:
                use(record)
                count += 1
                if count % PAUSE_EVERY == 0:
                    silence.reschedule(loop.time() + LIMIT_S)
                    await asyncio.sleep(0)  # let the watchdog and the HTTP server run

    async def read(self, partitions: Collection[int]) -> Found:
        """Return the newest record of each circuit of ``partitions``, and the bounds of the input topics.

        Circuits of a new partition may have been published in others, by another ``family_pattern``.

        Raises:
            BrokerUnavailableError: The broker did not deliver the records within 60 s.
            TimeoutError, KafkaError: The broker did not return the bounds within 60 s.
        """
        owned = sorted(partitions)
        newest: dict[str, PublishedCircuit] = {}
        read = range(self._settings.topic_partitions) if self._new else owned
        async for record in read_to_end(self._settings, self._settings.topics.circuits, read, timeout_s=LIMIT_S):
            circuit, why = read_published(record.value), unreadable(record)
            owner = None if circuit is None else self._owner(circuit, record)
            if circuit is not None and owner is not None:
                if owner in self._new or (owner == record.partition and owner in partitions):
                    _keep_newest(newest, circuit)
            elif record.partition not in partitions:
                pass  # another worker reads it
            elif why is not None:
                self.refused.add(record, why)
            elif record.value:
                self.refused.add(record, "the record isn't a circuit, or belongs to another partition")
            else:
                newest.pop((record.key or b"").decode(errors="replace"), None)
        return await self._bounds(newest) if owned else Found(Known(newest), {})

    def _owner(self, circuit: PublishedCircuit, record: LogRecord) -> int | None:
        """Return the partition in which the record belongs. None if no worker wrote it to where it is."""
        count = self._settings.topic_partitions
        owner = partition_of(circuit.tool_name, count, self._settings.family_pattern)
        written = owner == record.partition or may_have_owned(record.partition, circuit.tool_name, count)
        return owner if written and circuit.key == record.key else None

    async def _bounds(self, newest: dict[str, PublishedCircuit]) -> Found:
        names = self._settings.topics
        async with asyncio.timeout(LIMIT_S):
            there = await self._publisher.leaders()  # there may be more partitions than topic_partitions
        inputs = (names.executions, names.commands)
        places = [TopicPartition(topic, number) for topic in inputs for number in sorted(there.get(topic, {}))]
        starts, ends = await read_bounds(self._settings, places, timeout_s=LIMIT_S)
        known = Known(
            newest,
            {place.partition: end for place, end in ends.items() if place.topic == names.executions},
            {place.partition: end for place, end in ends.items() if place.topic == names.commands},
        )
        return Found(known, {TP(*tp): offset for tp, offset in starts.items()})


def _keep_newest(found: dict[str, PublishedCircuit], circuit: PublishedCircuit) -> None:
    known = found.get(circuit.circuit_id)
    if known is None or circuit.version >= known.version:
        found[circuit.circuit_id] = circuit
