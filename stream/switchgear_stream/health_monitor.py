"""The worker's lag, and whether the worker makes progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from faust.types import TP

from switchgear.runtime import kafka_log
from switchgear.runtime.throttled_log import AGAIN_S, Throttle
from switchgear_schemas.settings import Settings
from switchgear_stream.app import WorkerApp
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner
from switchgear_stream.topic_watch import TopicWatch
from switchgear_stream.watchdog import Watchdog

log = structlog.get_logger()
EVERY_S: Final = 1.0
ANSWER_S: Final = 5.0
STALLED_S: Final = 30.0
"""With lag but no finished batch for this long, the stream stands still. A batch takes milliseconds."""
UNREADY_S: Final = 60.0
"""With Kafka there but no row and no new assignment for this long, the recovery waits for something that does not come."""
HOPELESS_S: Final = 120.0
"""After this the process ends, for either reason: a restart takes seconds."""


def lag(ends: Mapping[TP, int], positions: Mapping[TP, int]) -> dict[TP, int]:
    """Return the records between the position and the end of each partition, for the partitions with a position."""
    return {tp: max(0, end - positions[tp]) for tp, end in ends.items() if tp in positions}


class HealthMonitor:
    """Ask the broker once a second for the ends of the owned partitions, and set the gauges."""

    def __init__(
        self,
        *,
        settings: Settings,
        app: WorkerApp,
        table: DurableTable,
        owner: Owner,
        watchdog: Watchdog,
        metrics: WorkerMetrics,
        kafka_answers: Callable[[], Awaitable[bool]],
        topics: TopicWatch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics = (settings.topics.executions, settings.topics.commands)
        self._kept = settings.topic_partitions
        self._watch = topics
        self._app = app
        self._table = table
        self._owner = owner
        self._watchdog = watchdog
        self._metrics = metrics
        self._kafka_answers = kafka_answers
        self._clock = clock
        self._lagging_since: float | None = None
        self._moved_at = clock()
        self._recovered: object = None
        self._answered_at = clock()
        self._complaints = Throttle(AGAIN_S, clock=clock)

    @property
    def unready_for(self) -> float:
        """The seconds during which the worker was not ready and its recovery did not move, although Kafka answered."""
        return self._clock() - self._moved_at

    @property
    def stalled_for(self) -> float:
        """The seconds during which there was lag and no batch was finished."""
        if self._lagging_since is None:
            return 0.0
        return max(0.0, self._clock() - max(self._lagging_since, self._owner.progressed_at))

    @property
    def silent_for(self) -> float:
        """The seconds since the broker last answered."""
        return self._clock() - self._answered_at

    def problem(self) -> str | None:
        """Return what makes this worker unhealthy, as a sentence; None if it is healthy."""
        if self._watchdog.failed.done():
            return self._watchdog.failed.result()
        if self.silent_for > STALLED_S:  # first: it is the cause of the others
            return f"Kafka has not answered for {self.silent_for:.0f} s."
        if self._watch is not None and self._watch.problem is not None:
            return self._watch.problem
        if self.stalled_for > STALLED_S:
            return f"The stream has stood still for {self.stalled_for:.0f} s while there is lag."
        if self.unready_for > UNREADY_S:
            return f"The worker has not been ready, nor got nearer to it, for {self.unready_for:.0f} s."
        return None

    @property
    def notice(self) -> str | None:
        """What operators should know about a healthy worker; None if there is nothing."""
        return None if self._watch is None else self._watch.notice

    async def run(self) -> None:
        """Look every second until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Set the gauges, note whether the broker answers, and end the process if there was no progress for :data:`HOPELESS_S`."""
        await self._observe()
        if self.stalled_for > HOPELESS_S:
            self._watchdog.report(f"The stream stood still for {self.stalled_for:.0f} s while there was lag.")
        if self.unready_for > HOPELESS_S:
            self._watchdog.report(f"The recovery stood still for {self.unready_for:.0f} s.")

    async def _observe(self) -> None:
        owner, metrics = self._owner, self._metrics
        metrics.ready.set(owner.ready)
        metrics.partitions.set(len(owner.partitions))
        metrics.table_rows.set(len(self._table.rows))
        metrics.stale_rows.set(self._table.stale_rows)
        metrics.observe_circuits(owner.states())
        recovered = (self._app.consumer_generation_id, self._table.read)
        if owner.ready or recovered != self._recovered or self.silent_for > ANSWER_S + EVERY_S:
            self._moved_at, self._recovered = self._clock(), recovered
        if not owner.ready or not owner.partitions:
            self._lagging_since = None
            owned = []
            metrics.last_progress.set(0)
            if not owner.partitions:  # others have them, and export their lag
                for topic in self._topics:
                    metrics.lag.labels(topic).set(0)
        else:
            owned = [TP(topic, number) for topic in self._topics for number in self._owned_of(topic)]
        try:
            async with asyncio.timeout(ANSWER_S):
                if not owned:  # a consumer without partitions asks the broker nothing
                    if await self._kafka_answers():
                        self._note_answer()
                    return
                ends = await self._app.consumer.highwaters(*owned)
                positions = {tp: await self._position(tp) for tp in owned}
        except Exception as error:  # noqa: BLE001 - whatever the consumer's thread raises, the lag is unknown
            self._complain(error)
            return
        self._note_answer()
        behind = lag({TP(*tp): end for tp, end in ends.items()}, positions)
        for topic in self._topics:
            metrics.lag.labels(topic).set(sum(count for tp, count in behind.items() if tp.topic == topic))
        if any(behind.values()):
            self._lagging_since = self._lagging_since or self._clock()
        else:
            self._lagging_since = None
        metrics.last_progress.set(self.stalled_for)

    def _complain(self, error: Exception) -> None:
        left_out = self._complaints.admit(type(error).__name__)
        if left_out is not None:
            log.warning("lag_unknown", error=repr(error), left_out=left_out)

    def _note_answer(self) -> None:
        self._answered_at = self._clock()
        kafka_log.answered()

    def _owned_of(self, topic: str) -> list[int]:
        """Return the partitions of an input topic that this worker reads. Those that were added go with the circuits' partitions."""
        count = self._kept if self._watch is None else self._watch.counts.get(topic, self._kept)
        return [number for number in range(max(self._kept, count)) if number % self._kept in self._owner.partitions]

    async def _position(self, tp: TP) -> int:
        """Return the next offset to fold; before the first batch, the consumer's position."""
        folded = self._owner.offsets.position(tp)
        return (await self._app.consumer.position(tp) or 0) if folded is None else folded
