"""The partitions that this process owns, from one rebalance to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.offset_commits import Commit, Commits, Committed
from switchgear_sinks.writer.partition import PartitionWriter
from switchgear_sinks.writer.settings import WriterLimits

log = structlog.get_logger()


_REPLACEMENTS_MAX: Final = 5
_REPLACEMENTS_WITHIN_S: Final = 30.0
_SAME_REPLACEMENT_S: Final = 0.1


class Replacements:
    """Notices that another member of the group has the same name: the two replace each other indefinitely.

    A single replacement is only a session that ended while this process slept.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: list[float] = []

    def count(self) -> bool:
        """Count a replacement, and return whether there were too many. Each partition reports the same one."""
        now = self._clock()
        if not self._times or now - self._times[-1] >= _SAME_REPLACEMENT_S:
            self._times = [at for at in self._times if now - at < _REPLACEMENTS_WITHIN_S] + [now]
        return len(self._times) >= _REPLACEMENTS_MAX


class Assignment:
    """Runs a task for each partition and one that commits for all of them, and reports a task that fails.

    Args:
        partitions: The partitions of this process.
        inserters: By topic.
        committed: The commits of the partitions, with what former owners left unfinished.
        commit: Commits offsets.
        limits: Batch sizes and memory.
        clock: Monotonic seconds.
        failed: Called with the error of a task that fails.
    """

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        inserters: Mapping[str, Inserter],
        committed: Mapping[TopicPartition, Committed],
        commit: Commit,
        limits: WriterLimits,
        clock: Callable[[], float],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._limits = limits
        self._failed = failed
        self._commits = Commits(commit)
        self.writers = {
            each: PartitionWriter(
                each, inserters[each.topic], self._commits, limits, clock, committed.get(each, Committed(0))
            )
            for each in partitions
        }
        self._committing = self._start(self._commits.run(), "commits")
        self._tasks = [
            self._start(writer.run(), f"{each.topic}-{each.partition}") for each, writer in self.writers.items()
        ]

    async def end(self, limit_s: float) -> bool:
        """Give the running batches ``limit_s`` to finish, then cancel them. Return True if all finished.

        The next owner of a partition replays a cancelled batch, under the same token. No commit is in flight when this
        returns: a late one would be taken for a commit of the next owner.
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
            log.warning("batches cancelled, they will be replayed", partitions=len(left))
        return not left

    def _start(self, work: object, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"sink-{name}")  # type: ignore[arg-type]
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
