"""Micro-batch intake: each poll's records of one partition arrive in the agent as one Faust message, a list.

Stock Faust spends 57 to 106 µs a message on asyncio scheduling, whatever its agent does; here that is paid once a poll.

The two overrides of the offset bookkeeping: Faust takes the skipped offsets of a collapsed batch for a gap, adds them to the
acknowledged list together with the batch's own last offset, meets the duplicate, and commits one batch a commit interval, ever
further behind. Batches of one partition are processed in order by one agent, so the highest acknowledged offset is the one to commit.

All of it leans on private names: faust-streaming and aiokafka are pinned exactly, and ``tests/unit/stream`` fails if they change.
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
"""Longest a fetch waits at the broker for a first record. Records of a partition that is not part of it wait as long; Faust's 1,500
would stand between a failing call and its refusal."""


POLL_BYTES: Final = 16 * 1_048_576
"""Keys and values of one poll. A fetch of 4 MiB of a partition may unpack to gigabytes."""
HELD_BYTES: Final = 64 * 1_048_576
"""Of the batches that wait for the owner; with more, the next poll waits. (A few megabytes at 20,000 events a second.)"""
HELD_LOOK_S: Final = 0.02


class Batch(Records):
    """The records of one poll of one partition."""

    __slots__ = ("__weakref__",)


class _ReadOffsets(defaultdict[TP, int | None]):
    """Faust drops what it has read before, by a mark that a poll in flight sets back after a seek. Ours go by :mod:`.continuity`."""

    def __init__(self, batched: Callable[[TP], bool], before: Mapping[TP, int | None]) -> None:
        super().__init__(lambda: None, before)
        self._batched = batched

    def __getitem__(self, tp: TP) -> int | None:
        return None if self._batched(tp) else super().__getitem__(tp)


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's thread of the consumer, which survives a commit that comes after the partitions have gone, and fetches at once."""

    async def on_start(self) -> None:
        """Start aiokafka's consumer."""
        await super().on_start()
        consumer = self._ensure_consumer()
        consumer._fetcher._fetch_max_wait_ms = FETCH_MAX_WAIT_MS  # noqa: SLF001 - it is no option
        self._guard = BatchGuard(poll_bytes=POLL_BYTES)
        self._guard.install(consumer)

    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's signature
        """Poll, for no more bytes than the worker can hold, whatever they were packed into; for nothing while it holds too many."""
        if cast("Consumer", self.consumer).held_bytes > HELD_BYTES:
            await asyncio.sleep(min(timeout, HELD_LOOK_S))
            return {}
        self._guard.refill()
        return await super().getmany(active_partitions, timeout)

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit those of our present partitions. Faust hands over nothing where a rebalance took all, and crashes on ``ValueError({})``."""
        if not self.assignment().intersection(offsets):
            return False
        return await super()._commit(offsets)


class Consumer(driver.Consumer):
    """Faust's consumer, with the records of the batched topics collapsed."""

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
        """Keys and values of the batches that wait for the owner, or are at work."""
        return sum(list(self._held.values()))

    def _hold(self, records: Records) -> Batch:
        """The batch, noted until nothing refers to it any more: whoever is done with it, or drops it in a rebalance, need not say so."""
        batch = Batch(records)
        self._held[id(batch)] = sum(len(record.value or b"") + len(record.key or b"") for record in records)
        weakref.finalize(batch, self._held.pop, id(batch), None)
        return batch

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        if not self._batched(tp):
            await super()._add_gap(tp, offset_from, offset_to)

    async def perform_seek(self) -> None:
        """Go to the committed offsets, and where there is none to the start.

        After a recovery Faust resumes the partitions, seeks, and then clears every queue. A poll that fits in before is cleared with them,
        and aiokafka doesn't seek where nothing is committed: that partition stayed past a batch that nobody saw (measured: one restart
        of three under load). The flow stops here so that nothing is fetched until Faust resumes it, after the clearing.
        """
        self.stop_flow()
        await super().perform_seek()
        fresh = [
            TopicPartition(*tp) for tp in self.assignment() if self._batched(tp) and self._committed_offset[tp] is None
        ]
        if fresh:
            await self._thread.seek_to_beginning(*fresh)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Skip Faust's watch over each partition: it asserts a position, which a seek in progress has not, and ends the worker.

        :mod:`.watch` looks after the same, by the broker's own ends.
        """

    async def rewind(self, tp: TP, offset: int) -> None:
        """Read a partition again from ``offset``."""
        await self._thread.seek_wait({tp: offset})

    async def rest(self, partitions: Iterable[TP]) -> None:
        """Fetch nothing of these until the next assignment: changelogs, which :mod:`.takeover` reads.

        aiokafka would fetch what we write to them, and hold up every other partition of the broker for 0.1 s over records that wait
        to be taken: the first event after the first write of each partition came that much later (measured: 64 ms of 78).
        """
        await self._thread.call_thread(self._pause, [TopicPartition(*tp) for tp in partitions])

    async def _pause(self, partitions: list[TopicPartition]) -> None:
        consumer = self._thread._ensure_consumer()  # noqa: SLF001 - pinned, see above
        consumer.pause(*(consumer.assignment() & set(partitions)))

    def committed_offset(self, tp: TP) -> int | None:
        """Where the group has committed up to, as of the last seek or commit; null: nowhere."""
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
        app: the Faust application, whose broker it connects to.
        batched: topics whose records arrive as lists.
    """

    Consumer = Consumer

    def __init__(self, app: faust.App, batched: frozenset[str]) -> None:
        super().__init__(app.conf.broker_consumer, app)
        self.batched = batched
