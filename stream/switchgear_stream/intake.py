"""Intake in batches: each poll's records of one partition reach the agent as one Faust message, a list.

Faust's scheduling costs far more per message than the fold. In batches this cost is paid once per poll.

Two methods of the offset bookkeeping are overridden (``_add_gap`` and ``_new_offset``). Faust would take the offsets inside a batch for a
gap and commit at most one batch per commit interval. One agent processes the batches of a partition in order, so the highest
acknowledged offset is the one to commit.

This module uses private names of faust-streaming and aiokafka. Both are pinned exactly, and ``tests/unit/stream`` fails if they change.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import faust
from aiokafka import ConsumerRecord, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from switchgear_schemas.unreadable import BatchGuard

Records = list[ConsumerRecord[bytes | None, bytes | None]]

FETCH_MAX_WAIT_MS: Final = 250
"""Longest time that a fetch waits at the broker for a first record. A record of a partition outside that fetch waits as long. Faust's
default of 1,500 ms would delay the refusal of a failing call."""
POLL_BYTES: Final = 16 * 1_048_576
"""Keys and values of one poll. A fetch of 4 MiB per partition may unpack to gigabytes."""
HELD_BYTES: Final = 64 * 1_048_576
"""Keys and values of the batches that wait for the owner. Above this the next poll waits."""
HELD_LOOK_S: Final = 0.02


class PolledBatch(Records):
    """The records of one poll of one partition."""

    __slots__ = ("__weakref__",)


class _ReadOffsets(defaultdict[TP, int | None]):
    """Faust's marks of what it has read, empty for batched topics.

    Faust skips records below the mark, and a poll in flight sets the mark back after a seek. :class:`.batching.OffsetSequence` checks
    the offsets of batched topics instead.
    """

    def __init__(self, batched: Callable[[TP], bool], before: Mapping[TP, int | None]) -> None:
        super().__init__(lambda: None, before)
        self._batched = batched

    def __getitem__(self, tp: TP) -> int | None:
        return None if self._batched(tp) else super().__getitem__(tp)


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread. It fetches without delay, limits the bytes of a poll, and survives a commit after a rebalance."""

    async def on_start(self) -> None:
        """Start aiokafka's consumer, and set its limits."""
        await super().on_start()
        consumer = self._ensure_consumer()
        consumer._fetcher._fetch_max_wait_ms = FETCH_MAX_WAIT_MS  # noqa: SLF001 - Faust has no option for it
        self._guard = BatchGuard(poll_bytes=POLL_BYTES)
        self._guard.install(consumer)

    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's signature
        """Poll for at most :data:`POLL_BYTES`, unpacked. While the worker holds too many bytes, return nothing."""
        if cast("Consumer", self.consumer).held_bytes > HELD_BYTES:
            await asyncio.sleep(min(timeout, HELD_LOOK_S))
            return {}
        self._guard.refill()
        return await super().getmany(active_partitions, timeout)

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit, unless a rebalance took all these partitions. Faust would then commit nothing and crash on ``ValueError({})``."""
        if not self.assignment().intersection(offsets):
            return False
        return await super()._commit(offsets)


class Consumer(driver.Consumer):
    """Faust's consumer, with the records of each poll collapsed into one message for the batched topics."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = _ReadOffsets(self._batched, self._read_offset)
        self._held: dict[int, int] = {}

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _batched(self, tp: TP) -> bool:
        return tp.topic in cast("Transport", self.transport).batched

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> dict[TP, list[Any]]:  # noqa: ASYNC109 - Faust's signature
        found: Mapping[TP, Records] = await super()._getmany(active_partitions, timeout)
        return {
            tp: [replace(records[-1], value=self._hold(records))] if records and self._batched(tp) else records
            for tp, records in found.items()
        }

    @property
    def held_bytes(self) -> int:
        """The bytes of keys and values in batches that wait for the owner or are at work."""
        return sum(list(self._held.values()))

    def _hold(self, records: Records) -> PolledBatch:
        """Return the batch, and count its bytes until it is garbage collected. A rebalance drops batches without notice."""
        batch = PolledBatch(records)
        self._held[id(batch)] = sum(len(record.value or b"") + len(record.key or b"") for record in records)
        weakref.finalize(batch, self._held.pop, id(batch), None)
        return batch

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        if not self._batched(tp):
            await super()._add_gap(tp, offset_from, offset_to)

    async def perform_seek(self) -> None:
        """Seek to the committed offsets. A partition without one starts at its beginning.

        After a recovery Faust resumes the partitions, seeks, and then clears every queue. A poll in between is cleared too, and aiokafka
        does not seek where nothing is committed, so that partition would skip a batch. The flow stops here. Faust resumes it after the
        clearing.
        """
        self.stop_flow()
        await super().perform_seek()
        fresh = [
            TopicPartition(*tp) for tp in self.assignment() if self._batched(tp) and self._committed_offset[tp] is None
        ]
        if fresh:
            await self._thread.seek_to_beginning(*fresh)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Skip Faust's check of each partition. It asserts a position, which is missing during a seek, and then ends the worker.

        :mod:`.health_monitor` checks the same by the broker's ends.
        """

    async def rewind(self, tp: TP, offset: int) -> None:
        """Read a partition again from ``offset``."""
        await self._thread.seek_wait({tp: offset})

    async def rest(self, partitions: Iterable[TP]) -> None:
        """Stop fetching these partitions until the next assignment. They are changelogs, which :mod:`.takeover` reads.

        aiokafka would fetch the rows that the worker writes. While fetched records wait to be taken, it delays the other partitions of
        the same broker by 0.1 s.
        """
        await self._thread.call_thread(self._pause, [TopicPartition(*tp) for tp in partitions])

    async def _pause(self, partitions: list[TopicPartition]) -> None:
        consumer = self._thread._ensure_consumer()  # noqa: SLF001 - pinned, see the module's docstring
        consumer.pause(*(consumer.assignment() & set(partitions)))

    def committed_offset(self, tp: TP) -> int | None:
        """Return the group's committed offset as of the last seek or commit; None if there is none."""
        offset: int | None = self._committed_offset[tp]
        return offset

    def _new_offset(self, tp: TP) -> int | None:
        if not self._batched(tp):
            offset: int | None = super()._new_offset(tp)
            return offset
        acked: list[int] = self._acked[tp]
        if not acked:
            return None
        highest = max(acked)
        acked.clear()
        self._acked_index[tp].clear()
        return highest + 1


class Transport(driver.Transport):
    """Faust's aiokafka transport with :class:`Consumer`.

    Args:
        app: The Faust application, whose broker it connects to.
        batched: Topics whose records arrive as lists.
    """

    Consumer = Consumer

    def __init__(self, app: faust.App, batched: frozenset[str]) -> None:
        super().__init__(app.conf.broker_consumer, app)
        self.batched = batched
