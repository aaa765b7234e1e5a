"""What this store lacks of the topics: what sinks of the group had read before the store was there.

A store may be new while the group's commits are not, because its folder was lost, or because sinks write to another one now. Those
events are in no table, and the commits pass them over. The first sink that writes to a store notes in it what the commits pass over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import structlog
from aiokafka.structs import TopicPartition

from switchgear_sinks.store import Store
from switchgear_sinks.writer.intents import Committed

log = structlog.get_logger()

TABLE: Final = "sink_history"
_READ: Final = f"""
SELECT topic, partition, countIf(lacks_before = 0) = 0 ? min(lacks_before) : 0 FROM {TABLE}
WHERE consumer_group = {{group:String}} GROUP BY topic, partition
"""  # noqa: S608 - a constant
_HAS_ROWS: Final = "SELECT (SELECT count() FROM tool_metrics) + (SELECT count() FROM circuit_transitions) > 0"
HINT: Final = (
    "Stop the sinks, then start each once with `switchgear sink --rewind`: it reads again what Kafka still has."
)

Note = dict[str, str | int]


class StoreHistory:
    """Notes and tells what a store lacks.

    Args:
        store: The store.
        group: The consumer group of the sinks.
    """

    def __init__(self, store: Store, group: str) -> None:
        self._store = store
        self._group = group
        self._lacking: dict[TopicPartition, int] | None = None
        self._readable: dict[TopicPartition, int] = {}

    @property
    def known(self) -> bool:
        """Whether :meth:`begin` has returned."""
        return self._lacking is not None

    async def begin(self, committed: Mapping[TopicPartition, Committed], begins: Mapping[TopicPartition, int]) -> None:
        """Read what the store lacks. If no sink of the group has written to it before, note it first.

        Args:
            committed: The commits of all partitions of the group.
            begins: The first offset that Kafka has of each.
        """
        found = await self._read()
        if found is None:
            lacking: list[Note] = []
            if not (await self._store.query(_HAS_ROWS)).result_rows[0][0]:  # else an older release has written here
                lacking = _lacking(committed, begins)
            await self._note([*lacking, _note("", 0)])
            found = await self._read() or {}
        self._lacking = found
        self._readable = {each: max(0, before - begins.get(each, before)) for each, before in found.items()}

    async def read(self) -> None:
        """Read again what the store lacks: another sink may have completed it."""
        self._lacking = await self._read() or {}

    def readable(self) -> Counter[str]:
        """Return by topic how many offsets the store lacks that Kafka had at the last :meth:`begin`."""
        found: Counter[str] = Counter()
        for partition in self._lacking or ():
            found[partition.topic] += self._readable.get(partition, 0)
        return +found

    def lacks_before(self, partition: TopicPartition) -> int:
        """Return the first offset of ``partition`` that the store does not lack; 0 if it lacks nothing that is known."""
        return (self._lacking or {}).get(partition, 0)

    async def complete(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the store lacks nothing more of ``partitions``, or that their commits say what it lacks."""
        done = [each for each in partitions if self.lacks_before(each)]
        if done and self._lacking is not None:
            await self._note([_note(each.topic, each.partition) for each in done])
            for each in done:
                del self._lacking[each]

    async def _read(self) -> dict[TopicPartition, int] | None:
        rows = (await self._store.query(_READ, {"group": self._group})).result_rows
        return {TopicPartition(topic, number): before for topic, number, before in rows if before} if rows else None

    async def _note(self, notes: list[Note]) -> None:
        lines = [json.dumps({"consumer_group": self._group} | note) for note in notes]
        await self._store.raw_insert(TABLE, "\n".join(lines).encode())


def _note(topic: str, partition: int, lacks_before: int = 0, readable: int = 0) -> Note:
    return {"topic": topic, "partition": partition, "lacks_before": lacks_before, "readable": readable}


def _lacking(committed: Mapping[TopicPartition, Committed], begins: Mapping[TopicPartition, int]) -> list[Note]:
    """Return what commits pass over that Kafka still has."""
    return [
        _note(each.topic, each.partition, at.offset, at.offset - begins[each])
        for each, at in sorted(committed.items())
        if at.offset > begins.get(each, at.offset)
    ]
