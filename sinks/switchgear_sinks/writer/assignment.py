"""The partitions that this process owns, from one rebalance to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.batches import Record
from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.intents import Committed
from switchgear_sinks.writer.offset_commits import Commit, Commits
from switchgear_sinks.writer.pace import Pace
from switchgear_sinks.writer.partition import Partition
from switchgear_sinks.writer.replay import ReadRanges
from switchgear_sinks.writer.settings import WriterLimits
from switchgear_sinks.writer.topic_writer import LANES, TopicWriter

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
    """Runs the tasks that write the partitions of this process, and one that commits for all of them. Reports a task that fails.

    Args:
        partitions: The partitions of this process.
        inserters: By topic.
        committed: The commits of the partitions, with what former owners left unfinished.
        commit: Commits offsets.
        read: Reads the batches that former owners left.
        limits: Batch sizes and memory.
        pace: Says when a batch is due by its age.
        clock: Monotonic seconds.
        failed: Called with the error of a task that fails.
    """

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        inserters: Mapping[str, Inserter],
        committed: Mapping[TopicPartition, Committed],
        commit: Commit,
        read: ReadRanges,
        limits: WriterLimits,
        pace: Pace,
        clock: Callable[[], float],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._clock = clock
        self._failed = failed
        commits = Commits(commit)
        self.partitions = {each: Partition(each, limits, committed.get(each, Committed(0))) for each in partitions}
        self._writers: dict[str, TopicWriter] = {}
        for topic, inserter in inserters.items():
            ours = {each.partition: state for each, state in self.partitions.items() if each.topic == topic}
            self._writers[topic] = TopicWriter(topic, ours, inserter, commits, read, limits, pace, clock)
        self._committing = self._start(commits.run(), "commits")
        self._tasks = [
            self._start(work, f"{topic}-{name}")
            for topic, writer in self._writers.items()
            for name, work in (
                *((str(lane), writer.run()) for lane in range(LANES)),
                *(("replay", writer.replay(each)) for each in writer.unfinished),
            )
        ]

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that wait or are being inserted."""
        return sum(each.held_bytes for each in self._writers.values())

    @property
    def unfinished(self) -> int:
        """How many batches of former owners are not replayed yet."""
        return sum(len(each.unfinished) for each in self._writers.values())

    def feed(self, partition: TopicPartition, records: Sequence[Record]) -> range:
        """Take records, in order. Return the offsets before them that have no record."""
        gap = self.partitions[partition].feed(records, self._clock())
        self._writers[partition.topic].wake()
        return gap

    def reached(self, partition: TopicPartition, position: int) -> range:
        """Note that the consumer has reached ``position``. Return the offsets before it that have no record."""
        gap = self.partitions[partition].reached(position)
        if self.partitions[partition].passed is not None:
            self._writers[partition.topic].wake()
        return gap

    def hurry(self, *, hurried: bool) -> None:
        """Cut batches at once, however small, because memory is short."""
        for each in self._writers.values():
            if each.hurried != hurried:
                each.hurry(hurried=hurried)

    async def end(self, limit_s: float) -> bool:
        """Give the running batches ``limit_s`` to finish, then cancel them. Return True if all finished.

        The next owner of a partition replays a cancelled batch, under the same token. No commit is in flight when this
        returns: a late one would be taken for a commit of the next owner.
        """
        for writer in self._writers.values():
            writer.end()
        left: set[asyncio.Task[None]] = set()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=limit_s)
        for task in (*left, self._committing):
            task.cancel()
        await asyncio.gather(*left, self._committing, return_exceptions=True)
        if left:
            log.warning("batches cancelled, they will be replayed", batches=len(left))
        return not left

    def _start(self, work: object, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"sink-{name}")  # type: ignore[arg-type]
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
