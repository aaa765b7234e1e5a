"""Events that their producer may have sent before (header ``resent``): looked up before they are stored."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from switchgear_sinks.store import Store
from switchgear_sinks.writer.batch import Batch, Record
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


_identity: Final = msgspec.json.Decoder(_Identity).decode


async def drop_resent(store: Store, table: str, batch: Batch, rows: Rows) -> int:
    """Take the resent events out of ``rows`` that are stored already, or stand earlier in it. Returns how many.

    Rows of the batch's own range do not count as stored: an insert of it that was cut short must be made again in full,
    or the rollups would miss what the raw table has.
    """
    resent = {record.offset for record in rows.resent}
    if not resent:
        return 0
    identities = [_identity(record.value or b"") for record in rows.records]
    wanted = [each for each, record in zip(identities, rows.records, strict=True) if record.offset in resent]
    ids = sorted({str(each.metric_id) for each in wanted if each.metric_id is not None})
    stored = await _stored(store, table, batch, ids, sorted({each.tool_name for each in wanted})) if ids else set()
    drop: set[int] = set()
    seen: set[UUID] = set()
    for index, (each, record) in enumerate(zip(identities, rows.records, strict=True)):
        if each.metric_id is None:
            continue
        if record.offset in resent and (each.metric_id in stored or each.metric_id in seen):
            drop.add(index)
        seen.add(each.metric_id)
    rows.remove(drop)
    return len(drop)


async def _stored(store: Store, table: str, batch: Batch, ids: list[str], tools: list[str]) -> set[UUID]:
    found = await store.query(
        _LOOK_UP.format(table=table),
        {
            "tools": tools,
            "ids": ids,
            "partition": _partition(batch.records[0]),
            "first": batch.intent.first,
            "last": batch.intent.last,
            "stamp": batch.intent.stamp,
        },
    )
    return {row[0] for row in found.result_rows}


def _partition(record: Record) -> int:
    return record.partition
