"""The first take-over of a partition under a ``family_pattern``: its owner moves rows into it from the partitions that had them before.

The rows go to the changelog first. When the circuits are published, a row says that the partition is complete (:class:`Placement`), and only
then the rows leave their former partitions. A crash before that begins again, and finds the same rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient

from switchgear.fleet.moved_rows import MovedRows
from switchgear.fleet.rows import Placement, RowError, partitions_placed
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.families import canonical_pattern
from switchgear_schemas.records import unreadable
from switchgear_schemas.settings import Settings
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.publisher import Publisher
from switchgear_stream.topic_reader import read_to_end

log = structlog.get_logger()
LIMIT_S: Final = 60.0
PAUSE_EVERY: Final = 1_000


def check_placed(key: bytes, value: bytes | None, settings: Settings) -> None:
    """Check that a row of the changelog does not say that circuits are kept in another number of partitions.

    Raises:
        SettingsError: It does. The rows of half the tools would be in partitions of other owners.
    """
    with contextlib.suppress(RowError):  # who restores the row reports it
        placed = partitions_placed(key, value)
        if placed not in {0, settings.topic_partitions}:
            raise SettingsError(
                f"The circuits of {settings.topics.changelog} are kept in {placed} partitions, "
                f"and topic_partitions is {settings.topic_partitions}.",
                hint=f"Set SWITCHGEAR_TOPIC_PARTITIONS={placed}. docs/howto/recovery.md says how to get more.",
            )


class RowMove:
    """Moves the rows of one take-over."""

    def __init__(self, settings: Settings, publisher: Publisher, table: DurableTable) -> None:
        self._settings = settings
        self._publisher = publisher
        self._table = table
        self._pattern: Final = canonical_pattern(settings.family_pattern)
        self._left: dict[int, list[bytes]] = {}
        self._read_from: dict[int, int] = {}
        self.partitions: frozenset[int] = frozenset()
        """Those that were not complete when the take-over began."""

    async def begin(self, ends: Mapping[int, int]) -> None:
        """Move the rows of the owned partitions, unless they are complete. Note in how many partitions circuits are kept.

        Args:
            ends: The end of the changelog of each owned partition. The table has the rows up to it.

        Raises:
            TimeoutError, KafkaError, BrokerUnavailableError: The broker did not take the rows, or delivered none for 60 s.
            SettingsError: Circuits are kept in another number of partitions than ``topic_partitions``.
        """
        for key, value in self._table.rows.items():
            check_placed(key, value, self._settings)
        for partition in ends:
            placement = self._placement(partition)
            if placement is not None and not placement.partitions:
                placement.partitions, placement.applied = self._settings.topic_partitions, placement.applied + 1
                await self._write(partition, {placement.key: placement.encode()})
        self.partitions = frozenset(partition for partition in ends if self._placement(partition) is None)
        self._left = {}
        if not self.partitions:
            return
        self._read_from = await self._committed()
        numbers = range(self._settings.topic_partitions)
        marks = await self._publisher.marks([number for number in numbers if number not in ends])
        found = await self._read({**ends, **{partition: mark + 1 for partition, mark in marks.items()}})
        rows = found.rows(self._table.rows)
        for partition, moved in rows.items():
            await self._write(partition, moved)
        self._left = found.left()
        if rows:
            log.info("rows_moved", partitions=sorted(rows), rows=sum(map(len, rows.values())))

    async def finish(self) -> None:
        """Note that the partitions are complete, then remove the rows from where they were.

        Raises:
            TimeoutError, KafkaError: The broker did not take the rows.
        """
        for partition in sorted(self.partitions):
            before = self._table.rows.get(Placement(partition=partition, pattern="").key)
            placement = Placement(
                partition=partition,
                pattern=self._pattern,
                applied=1 if before is None else Placement.decode(before).applied + 1,
                read_from=self._read_from,
                partitions=self._settings.topic_partitions,
            )
            await self._write(partition, {placement.key: placement.encode()})
        for partition, keys in self._left.items():
            base = await self._publisher.rows(partition, [(key, None) for key in keys])
            self._table.wrote(partition, base, len(keys))
        self.partitions, self._left = frozenset(), {}

    def _placement(self, partition: int) -> Placement | None:
        data = self._table.rows.get(Placement(partition=partition, pattern="").key)
        found = None if data is None else Placement.decode(data)
        return found if found is not None and found.pattern == self._pattern else None

    async def _committed(self) -> dict[int, int]:
        """Return from which offset the group reads each partition of the executions topic."""
        admin = AIOKafkaAdminClient(**self._settings.kafka.options())
        async with asyncio.timeout(LIMIT_S):
            try:
                await admin.start()
                found = await admin.list_consumer_group_offsets(self._settings.topics.worker_group)
            finally:
                await admin.close()
        read = {
            place.partition: at.offset for place, at in found.items() if place.topic == self._settings.topics.executions
        }
        return {number: max(0, read.get(number, 0)) for number in range(self._settings.topic_partitions)}

    async def _read(self, ends: dict[int, int]) -> MovedRows:
        found = MovedRows(
            self.partitions, partitions=self._settings.topic_partitions, family_pattern=self._settings.family_pattern
        )
        loop, count = asyncio.get_running_loop(), 0
        records = read_to_end(self._settings, self._settings.topics.changelog, ends, ends=ends, timeout_s=None)
        async with asyncio.timeout(LIMIT_S) as silence, contextlib.aclosing(records):
            async for record in records:
                if unreadable(record) is None:
                    check_placed(record.key or b"", record.value, self._settings)
                    found.add(record.partition, record.key or b"", record.value)
                count += 1
                if count % PAUSE_EVERY == 0:
                    self._table.read += PAUSE_EVERY  # the health monitor sees that the recovery moves
                    silence.reschedule(loop.time() + LIMIT_S)
                    await asyncio.sleep(0)
        return found

    async def _write(self, partition: int, rows: Mapping[bytes, bytes]) -> None:
        written: Iterable[tuple[bytes, bytes | None]] = rows.items()
        base = await self._publisher.rows(partition, written)
        for key, value in rows.items():
            self._table.write(partition, key, value)
        self._table.wrote(partition, base, len(rows))
