"""DurableTable: a Faust table whose changelog is written by us, and awaited.

Faust's own path gives the changelog a 0.1 s flush and publishes without waiting for the broker, so an offset can be committed ahead of
its state and a crash then loses it. Here a write lands in memory and in ``unsent``; the owner sends those and waits for the broker
before it acknowledges the batch. Storage, recovery and the assignment of changelog partitions stay Faust's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import faust
from faust.stores.memory import Store as MemoryStore
from faust.types import TP, EventT

from switchgear.fleet.row import applied


class DurableTable(faust.Table[bytes, bytes]):
    """Rows by circuit id, both bytes."""

    on_recovered: Callable[[set[int]], Awaitable[None]] | None = None
    """Awaited with the owned partitions after each recovery, before the first event: the take-over."""
    _recovering: dict[bytes, bytes] | None = None
    stale_rows: int = 0
    """Changelog rows that an older owner wrote after a newer one, ignored in recoveries."""

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

    def apply_changelog_batch(self, batch: Iterable[EventT[Any]]) -> None:
        """Recover rows, keeping of each the one that has come furthest.

        An owner that was paused past its session and wakes up can still write one stale row behind the new owner's.
        """
        super().apply_changelog_batch(self._newest(batch))

    def _newest(self, batch: Iterable[EventT[Any]]) -> Iterator[EventT[Any]]:
        rows = self.rows
        self._recovering = seen = {} if self._recovering is None else self._recovering
        for event in batch:
            key, value = cast("bytes", event.message.key), event.message.value
            if value is not None:
                mark = applied(value)
                if mark < seen.get(key, b""):
                    self.stale_rows += 1
                    continue
                seen[key] = mark
                known = rows.get(key)  # null between a tombstone and the end of this batch
                if known and mark < applied(known):
                    continue  # of a partition that stayed: memory is ahead of the log's past
            yield event

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Faust's hook between recovery and the first event."""
        await super().on_recovery_completed(active_tps, standby_tps)
        self._recovering = None
        if self.on_recovered is not None:
            await self.on_recovered({tp.partition for tp in active_tps})
