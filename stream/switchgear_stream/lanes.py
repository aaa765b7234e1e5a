"""Lanes: batches of different partitions overlap, those of one partition go one after the other.

A batch spends most of its time waiting for the broker to acknowledge its rows and records, about 2 ms each. One after the other, the
batches of a poll over 12 partitions took the sum of that; now they take the longest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from faust.types import EventT


class Lanes:
    """At most one batch a partition at work: an execution and a command of one number write the same rows.

    Args:
        work: what to do with a batch.
        broken: told of an exception that ``work`` let through, which it never should.
    """

    def __init__(self, work: Callable[[EventT[Any]], Awaitable[None]], broken: Callable[[BaseException], None]) -> None:
        self._work = work
        self._broken = broken
        self._busy: dict[int, asyncio.Task[None]] = {}

    async def put(self, event: EventT[Any]) -> None:
        """Begin the batch as soon as the one before it in its partition is done; returns when it has begun."""
        partition = event.message.partition
        before = self._busy.get(partition)
        if before is not None and not before.done():
            await asyncio.wait([before])
        task = self._busy[partition] = asyncio.create_task(self._run(event), name=f"batch of partition {partition}")
        await asyncio.sleep(0)  # it folds at once, where nothing is in its way
        if task.done():
            del self._busy[partition]

    async def _run(self, event: EventT[Any]) -> None:
        try:
            await self._work(event)
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: the owner of the process is told
            self._broken(error)
