"""A Faust table whose changelog the owner writes, and waits for.

Faust writes the changelog without waiting for the broker. An offset can then be committed before its state, and a crash loses the state.
Here a write changes memory only. The owner writes the changelog and waits for the broker before it acknowledges the batch. Storage, the
assignment of changelog partitions and the moment of recovery stay Faust's. :mod:`.takeover` reads the rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

import faust
from faust.stores.memory import Store as MemoryStore
from faust.types import TP, EventT

from switchgear.fleet.rows import MARK, RowError, applied, check_row
from switchgear_schemas.families import DEFAULT_PATTERN


class DurableTable(faust.Table[bytes, bytes]):
    """The rows by circuit id, both as bytes."""

    on_recovered: Callable[[set[int]], Awaitable[None]] | None = None
    """The take-over. Awaited with the owned partitions after each assignment, before the first event."""
    stale_rows: int = 0
    """Rows of the changelog that a former owner wrote after its successor. Recoveries ignore them."""
    read: int = 0
    """Rows of the changelog read so far."""
    family_pattern: str = DEFAULT_PATTERN
    """Which tools belong to a family, whose owner then has their rows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ends: dict[int, int] = {}
        self._marks: dict[bytes, bytes] = {}
        self.partition_count = int(self.partitions or 0)

    def write(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Set a row in memory, or remove it if ``value`` is None. The caller writes it to ``partition`` of the changelog."""
        if value is None:
            self._memory.data.pop(key, None)
            self._partition_of.pop(key, None)
        else:
            self._memory.data[key] = value
            self._partition_of[key] = partition

    @property
    def _memory(self) -> MemoryStore[bytes, bytes]:
        store = self.data
        assert isinstance(store, MemoryStore), "the worker runs with store=memory://"
        return store

    @property
    def _partition_of(self) -> MutableMapping[bytes, int]:
        """The partition of each row, by which the memory store drops the rows of lost partitions."""
        return self._memory._key_partition  # noqa: SLF001 - pinned, see :mod:`.intake`

    @property
    def rows(self) -> Mapping[bytes, bytes]:
        """The rows in memory."""
        return self._memory.data

    def on_key_set(self, key: bytes, value: bytes) -> None:  # noqa: ARG002 - Faust's signature
        """Refuse ``table[key] = value``, which does not wait for the changelog."""
        raise TypeError(f"The row {key!r} would not be durable. Use write().")

    def apply_changelog_batch(self, batch: Iterable[EventT[Any]]) -> None:  # noqa: ARG002 - Faust's signature
        """Refuse rows of Faust's own recovery, which may be incomplete."""
        raise TypeError("The rows are restored by the take-over.")

    def wrote(self, partition: int, base: int, count: int) -> None:
        """Note that ``count`` rows of this worker begin at offset ``base`` of the changelog.

        If another worker wrote between its last row and these, memory may lack rows. The next take-over then reads the partition again.
        """
        if self._ends.get(partition) == base:
            self._ends[partition] = base + count
        else:
            self._ends.pop(partition, None)

    def holds(self, partition: int, end: int) -> bool:
        """Return whether memory equals the changelog of ``partition`` up to offset ``end``. If not, drop its rows."""
        if self._ends.get(partition) == end:
            return True
        self._ends.pop(partition, None)
        for key in [key for key, owner in self._partition_of.items() if owner == partition]:
            self.write(partition, key, None)
        return False

    def restore(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Apply the next row of the changelog. Of each circuit, the row with the highest applied offsets stays.

        An owner that was paused longer than its session can still write a stale row after the new owner's.

        Raises:
            RowError: No owner of the partition wrote the row. The circuit keeps the row that it has.
        """
        self.read += 1
        if key == MARK:
            return
        if value is None:
            if self._partition_of.get(key, partition) != partition:
                raise RowError("A row of the changelog takes away another partition's.")
        else:
            check_row(key, value, partition, self.partition_count, self.family_pattern)
            mark = applied(value)
            if mark < self._marks.get(key, b""):
                self.stale_rows += 1
                return
            self._marks[key] = mark
        self.write(partition, key, value)

    def restored(self, ends: Mapping[int, int]) -> None:
        """Note the ends up to which every partition is restored."""
        self._ends.update(ends)
        self._marks.clear()

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Await the take-over. Faust calls this hook between an assignment and the first event."""
        await super().on_recovery_completed(active_tps, standby_tps)  # drops the rows of partitions that left
        partitions = {tp.partition for tp in active_tps}
        self._ends = {partition: end for partition, end in self._ends.items() if partition in partitions}
        if self.on_recovered is not None:
            await self.on_recovered(partitions)
