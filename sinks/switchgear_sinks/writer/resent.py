"""Drop events that are stored already: those that their producer may have sent twice have the header ``resent``.

A marked event may overtake its first copy. Then the marked one is stored, and the first copy is dropped, unless the sink was restarted in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from switchgear_schemas.marked_ids import MarkedIds
from switchgear_sinks.store import Store
from switchgear_sinks.writer.batches import Batch
from switchgear_sinks.writer.rows import Rows

_LOOK_UP: Final = """
SELECT DISTINCT metric_id FROM {table}
WHERE tool_name IN {{tools:Array(String)}} AND metric_id IN {{ids:Array(UUID)}}
  AND NOT (kafka_partition = {{partition:UInt32}} AND kafka_offset BETWEEN {{first:UInt64}} AND {{last:UInt64}}
           AND toUnixTimestamp64Milli(kafka_timestamp) >= {{stamp:Int64}})
"""


class _Identity(msgspec.Struct):
    tool_name: str
    metric_id: UUID | None = None


_ID_BYTES: Final = 40
"""Size of an id with its quotes and the comma."""
_PART_BYTES: Final = 48 * 1024
"""A server takes 128 KiB in one parameter (http_max_field_value_size). Escapes may double the size of a name."""
_identity: Final = msgspec.json.Decoder(_Identity).decode


def note_stored(rows: Rows, overtaking: MarkedIds) -> None:
    """Remember the resent events of a batch that was stored."""
    resent = {record.offset for record in rows.resent}
    for record in rows.records:
        if record.offset in resent and (found := _identity(record.value or b"").metric_id) is not None:
            overtaking.add(found.bytes, record.timestamp)


async def drop_resent(store: Store, table: str, batch: Batch, rows: Rows, overtaking: MarkedIds) -> int:
    """Remove resent events that are stored or come earlier in the batch, and first copies of resent events. Return how many.

    Stored rows of the batch's own offsets do not count. An insert that was interrupted must be repeated in full, or the
    rollups would miss rows of the raw table.
    """
    resent = {record.offset for record in rows.resent}
    identities = [_identity(record.value or b"") for record in rows.records]
    wanted = [
        each
        for each, record in zip(identities, rows.records, strict=True)
        if record.offset in resent and each.metric_id is not None
    ]
    stored: set[UUID] = set()
    for part in _parts(wanted):
        stored |= await _stored(store, table, batch, part)
    drop: set[int] = set()
    seen: set[UUID] = set()
    marked: set[UUID] = set()
    for index, (each, record) in enumerate(zip(identities, rows.records, strict=True)):
        if each.metric_id is None:
            continue
        if record.offset in resent:
            if each.metric_id in stored or each.metric_id in seen:
                drop.add(index)
            marked.add(each.metric_id)
        elif each.metric_id in marked or overtaking.overtook(each.metric_id.bytes, record.timestamp):
            drop.add(index)
        seen.add(each.metric_id)
    rows.remove(drop)
    return len(drop)


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


async def _stored(store: Store, table: str, batch: Batch, part: list[_Identity]) -> set[UUID]:
    found = await store.query(
        _LOOK_UP.format(table=table),
        {
            "tools": sorted({each.tool_name for each in part}),
            "ids": sorted({str(each.metric_id) for each in part}),
            "partition": batch.records[0].partition,
            "first": batch.intent.first,
            "last": batch.intent.last,
            "stamp": batch.intent.stamp,
        },
    )
    return {row[0] for row in found.result_rows}
