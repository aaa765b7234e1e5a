"""A assignment: the time in which this process owns its partitions, from one rebalance to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import structlog
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.offset_commits import Commit, Commits, Intent
from switchgear_sinks.writer.partition import PartitionWriter
from switchgear_sinks.writer.settings import Limits

log = structlog.get_logger()


class Assignment:
    """Owns the partitions' tasks and the task that commits for them, and notices their death."""

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        inserters: Mapping[str, Inserter],
        pending: Mapping[TopicPartition, Intent],
        commit: Commit,
        limits: Limits,
        clock: Callable[[], float],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._limits = limits
        self._failed = failed
        self._commits = Commits(commit)
        self.writers = {
            each: PartitionWriter(each, inserters[each.topic], self._commits, limits, clock, pending.get(each))
            for each in partitions
        }
        self._committing = self._start(self._commits.run(), "commits")
        self._tasks = [
            self._start(writer.run(), f"{each.topic}-{each.partition}") for each, writer in self.writers.items()
        ]

    async def end(self, limit_s: float) -> bool:
        """Let batches in hand finish for ``limit_s``, then give up on them. True where all finished.

        Whoever has the partition next replays what was given up on, under the same token. No commit of ours is on its way
        when this returns: one that came late would be taken for the next owner's.
        """
        for writer in self.writers.values():
            writer.end()
        left: set[asyncio.Task[None]] = set()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=limit_s)
        for task in (*left, self._committing):
            task.cancel()
        await asyncio.gather(*left, self._committing, return_exceptions=True)
        if left:
            log.warning("batches given up, they will be replayed", partitions=len(left))
        return not left

    def _start(self, work: object, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"sink-{name}")  # type: ignore[arg-type]
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
