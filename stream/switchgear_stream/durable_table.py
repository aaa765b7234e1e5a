"""DurableTable: a Faust table whose changelog is written by us, and awaited.

Faust's own path gives the changelog a 0.1 s flush and publishes without waiting for the broker, so an offset can be committed ahead of
its state and a crash then loses it. Here a write lands in memory and in ``unsent``; the owner sends those and waits for the broker
before it acknowledges the batch. Storage, the assignment of changelog partitions and the moment of recovery stay Faust's; what is read
then is ours (:mod:`.takeover`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import faust
from faust.stores.memory import Store as MemoryStore
from faust.types import TP, EventT

from switchgear.fleet.policy_overrides import MARK
from switchgear.fleet.row_check import check_row
from switchgear.fleet.rows import RowError, applied


class DurableTable(faust.Table[bytes, bytes]):
    """Rows by circuit id, both bytes."""

    on_recovered: Callable[[set[int]], Awaitable[None]] | None = None
    """Awaited with the owned partitions after each assignment, before the first event: the take-over."""
    stale_rows: int = 0
    """Changelog rows that an older owner wrote after a newer one, ignored in recoveries."""
    read: int = 0
    """Changelog rows read back so far."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ends: dict[int, int] = {}
        self._marks: dict[bytes, bytes] = {}
        self.partition_count = int(self.partitions or 0)

    def write(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Set a row in memory, or remove it (null). The caller sends it to ``partition`` of the changelog and waits for the broker."""
        store = self._memory
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)  # noqa: SLF001 - as below
            return
        store.data[key] = value
        store._key_partition[key] = partition  # noqa: SLF001 - the memory store drops the keys of lost partitions by it

    @property
    def _memory(self) -> MemoryStore[bytes, bytes]:
        store = self.data
        assert isinstance(store, MemoryStore), "the worker runs with store=memory://"
        return store

    @property
    def rows(self) -> Mapping[bytes, bytes]:
        """The rows in memory."""
        return self._memory.data

    def on_key_set(self, key: bytes, value: bytes) -> None:  # noqa: ARG002 - Faust's signature
        """Refuse ``table[key] = value``: it would bypass the awaited changelog."""
        raise TypeError(f"Use write() for {key!r}: a row set otherwise is not durable.")

    def apply_changelog_batch(self, batch: Iterable[EventT[Any]]) -> None:  # noqa: ARG002 - Faust's signature
        """Refuse what Faust would recover: it may be a part."""
        raise TypeError("The rows are restored by the take-over.")

    def wrote(self, partition: int, base: int, count: int) -> None:
        """``count`` rows of ours begin at offset ``base`` of the changelog.

        Where others wrote between our last row and these, memory may lack theirs: the partition is then read anew.
        """
        if self._ends.get(partition) == base:
            self._ends[partition] = base + count
        else:
            self._ends.pop(partition, None)

    def holds(self, partition: int, end: int) -> bool:
        """Memory is the changelog of ``partition`` up to offset ``end``; where it isn't, its rows are dropped, to be restored."""
        if self._ends.get(partition) == end:
            return True
        self._ends.pop(partition, None)
        memory = self._memory
        for key in [key for key, owner in memory._key_partition.items() if owner == partition]:  # noqa: SLF001 - as above
            memory.data.pop(key, None)
            del memory._key_partition[key]  # noqa: SLF001 - as above
        return False

    def restore(self, partition: int, key: bytes, value: bytes | None) -> None:
        """The next row of the changelog. Of each circuit the row that has come furthest stays.

        An owner that was paused past its session and wakes up can still write one stale row behind the new owner's.

        Raises:
            RowError: no owner of the partition wrote it. What was restored of that circuit before stays.
        """
        self.read += 1
        if key == MARK:
            return
        if value is None:
            if self._memory._key_partition.get(key, partition) != partition:  # noqa: SLF001 - as below
                raise RowError("A row of the changelog takes away another partition's.")
        else:
            check_row(key, value, partition, self.partition_count)
            mark = applied(value)
            if mark < self._marks.get(key, b""):
                self.stale_rows += 1
                return
            self._marks[key] = mark
        self.write(partition, key, value)

    def restored(self, ends: Mapping[int, int]) -> None:
        """Every partition is restored up to its end."""
        self._ends.update(ends)
        self._marks.clear()

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Faust's hook between an assignment and the first event."""
        await super().on_recovery_completed(active_tps, standby_tps)  # drops the rows of partitions that left
        partitions = {tp.partition for tp in active_tps}
        self._ends = {partition: end for partition, end in self._ends.items() if partition in partitions}
        if self.on_recovered is not None:
            await self.on_recovered(partitions)
