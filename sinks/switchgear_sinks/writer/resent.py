"""Drop events that are stored already: those that their producer may have sent twice have the header ``resent``.

A marked event may overtake its first copy. Then the marked one is stored, and the first copy is dropped, unless the sink was restarted in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import msgspec

from switchgear_schemas.marked_ids import MarkedIds
from switchgear_sinks.store import Store
from switchgear_sinks.writer.batches import Batch, Record
from switchgear_sinks.writer.rows import Rows

_LOOK_UP: Final = """
SELECT DISTINCT metric_id FROM {table}
WHERE tool_name IN {{tools:Array(String)}} AND metric_id IN {{ids:Array(UUID)}}
  AND NOT arrayExists(
    (partition, first, last, stamp) -> kafka_partition = partition AND kafka_offset BETWEEN first AND last
      AND toUnixTimestamp64Milli(kafka_timestamp) >= stamp,
    {{partitions:Array(UInt32)}}, {{firsts:Array(UInt64)}}, {{lasts:Array(UInt64)}}, {{stamps:Array(Int64)}})
"""


class _Identity(msgspec.Struct):
    tool_name: str
    metric_id: UUID | None = None


_ID_BYTES: Final = 40
"""Size of an id with its quotes and the comma."""
_PART_BYTES: Final = 48 * 1024
"""A server takes 128 KiB in one parameter (http_max_field_value_size). Escapes may double the size of a name."""
_identity: Final = msgspec.json.Decoder(_Identity).decode


class ResentEvents:
    """Knows the resent events of one table that were stored lately, and drops copies.

    Args:
        store: The store.
        table: The table of the events.
    """

    def __init__(self, store: Store, table: str) -> None:
        self._store = store
        self._table = table
        self._overtaking: defaultdict[int, MarkedIds] = defaultdict(MarkedIds)
        """By partition, the resent events that were stored lately."""

    def concern(self, batch: Batch, rows: Rows) -> bool:
        """Return whether the batch has resent events, or may have first copies of such."""
        known = [(self._overtaking.get(each.partition), each.stamp) for each in batch.intent.ranges]
        left = [ids.any_at(stamp) for ids, stamp in known if ids is not None]
        return bool(rows.resent) or any(left)

    def note_stored(self, rows: Rows) -> None:
        """Remember the resent events of a batch that was stored."""
        resent = _places(rows.resent)
        for record in rows.records if resent else ():
            if _place(record) in resent and (found := _identity(record.value or b"").metric_id) is not None:
                self._overtaking[record.partition].add(found.bytes, record.timestamp)

    async def drop(self, batch: Batch, rows: Rows) -> int:
        """Remove resent events that are stored or come earlier in the batch, and first copies of resent events. Return how many.

        Stored rows of the batch's own offsets do not count. An insert that was interrupted must be repeated in full, or the
        rollups would miss rows of the raw table.
        """
        resent = _places(rows.resent)
        identities = [_identity(record.value or b"") for record in rows.records]
        wanted = [
            each
            for each, record in zip(identities, rows.records, strict=True)
            if _place(record) in resent and each.metric_id is not None
        ]
        stored: set[UUID] = set()
        for part in _parts(wanted):
            stored |= await self._stored(batch, part)
        drop: set[int] = set()
        seen: set[UUID] = set()
        marked: set[UUID] = set()
        for index, (each, record) in enumerate(zip(identities, rows.records, strict=True)):
            if each.metric_id is None:
                continue
            if _place(record) in resent:
                if each.metric_id in stored or each.metric_id in seen:
                    drop.add(index)
                marked.add(each.metric_id)
            elif each.metric_id in marked or self._overtook(each.metric_id, record):
                drop.add(index)
            seen.add(each.metric_id)
        rows.remove(drop)
        return len(drop)

    def _overtook(self, identity: UUID, record: Record) -> bool:
        known = self._overtaking.get(record.partition)
        return known is not None and known.overtook(identity.bytes, record.timestamp)

    async def _stored(self, batch: Batch, part: list[_Identity]) -> set[UUID]:
        partitions, firsts, lasts, stamps = map(list, zip(*batch.intent.ranges, strict=True))
        found = await self._store.query(
            _LOOK_UP.format(table=self._table),
            {
                "tools": sorted({each.tool_name for each in part}),
                "ids": sorted({str(each.metric_id) for each in part}),
                "partitions": partitions,
                "firsts": firsts,
                "lasts": lasts,
                "stamps": stamps,
            },
        )
        return {row[0] for row in found.result_rows}


def _place(record: Record) -> tuple[int, int]:
    return record.partition, record.offset


def _places(records: Iterable[Record]) -> set[tuple[int, int]]:
    return {_place(record) for record in records}


def _parts(wanted: list[_Identity]) -> Iterator[list[_Identity]]:
    """Yield the identities in parts that a server takes in one parameter."""
    ordered = sorted(wanted, key=lambda each: each.tool_name)
    part: list[_Identity] = []
    size = 0
    for each in ordered:
        part.append(each)
        size += len(each.tool_name.encode()) + _ID_BYTES
        if size > _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
