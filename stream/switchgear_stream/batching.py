"""Which batches are processed together, and whether a batch follows the one before it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final

from faust.types import TP, EventT

MOST_WAITING: Final = 64
"""Batches that may wait. Beyond that Faust's own buffers fill, and then fetching stops."""
MOST_RECORDS: Final = 5_000
"""Records of a group, before its last batch. Nothing else runs in the event loop while a group is folded."""


class BatchQueue:
    """Hand waiting batches over in groups, one group at a time. The order within a partition is kept.

    A batch spends most of its time waiting until the broker acknowledges its rows. A group waits once for all its partitions.

    Args:
        process: Receives the batches of a group, oldest first. It must not raise.
    """

    def __init__(self, process: Callable[..., Awaitable[None]]) -> None:
        self._process = process
        self._waiting: deque[EventT[Any]] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, event: EventT[Any]) -> None:
        """Add a batch. Return as soon as there is room for it."""
        while len(self._waiting) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(event)
        self._arrived.set()

    async def run(self) -> None:
        """Process groups until cancelled."""
        while True:
            await self._arrived.wait()
            group = self.take()
            if not self._waiting:
                self._arrived.clear()
            self._room.set()
            await self._process(*group)

    def take(self) -> list[EventT[Any]]:
        """Return the next group, with at most one batch per partition. A partition's second batch waits for the next group."""
        group: dict[TP, EventT[Any]] = {}
        left: deque[EventT[Any]] = deque()
        records = 0
        for event in self._waiting:
            tp = event.message.tp
            if tp in group or records >= MOST_RECORDS:
                left.append(event)
            else:
                group[tp] = event
                records += len(event.value)
        self._waiting = left
        return list(group.values())


class BatchAction(Enum):
    """What to do with a batch."""

    FOLD = "fold"
    REWIND = "rewind"
    """Records before it are missing. Seek back and read them."""
    DROP = "drop"
    """It was fetched before the rewind, and comes again."""


class OffsetSequence:
    """The next offset expected of each partition, so that no batch is acknowledged before the records in front of it.

    The offset to commit is the highest acknowledged one. A batch can get lost between the broker and the agent: Faust clears a queue,
    or a rebalance drops a poll. Without this check the commit would skip the lost records.

    The log itself may have gaps (transaction markers, retention). If the same batch comes first again after a rewind, the gap is the log's.
    """

    def __init__(self) -> None:
        self._next: dict[TP, int] = {}
        self._rewound: dict[TP, int] = {}

    def forget(self) -> None:
        """Forget every partition, because their assignment changes."""
        self._next.clear()
        self._rewound.clear()

    def start(self, tp: TP, offset: int) -> None:
        """Expect ``offset`` next, unless the partition has started."""
        self._next.setdefault(tp, offset)

    def position(self, tp: TP) -> int | None:
        """Return the offset after the last folded record; None before the first."""
        return self._next.get(tp)

    def action(self, tp: TP, first: int) -> BatchAction:
        """Return what to do with a batch whose first record has offset ``first``."""
        expected = self._next.get(tp)
        if expected is None or first <= expected:
            return BatchAction.FOLD
        missed = self._rewound.get(tp)
        if missed is None:
            self._rewound[tp] = first
            return BatchAction.REWIND
        return BatchAction.FOLD if first == missed else BatchAction.DROP

    def done(self, tp: TP, last: int) -> None:
        """Note that the batch that ends with offset ``last`` was folded."""
        self._next[tp] = max(last + 1, self._next.get(tp, 0))
        self._rewound.pop(tp, None)
