"""HealthMonitor: the worker's lag, and whether its stream stands still while there is some."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from faust.types import TP

from switchgear_schemas.settings import Settings
from switchgear_stream.app import WorkerApp
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner
from switchgear_stream.watchdog import Watchdog

log = structlog.get_logger()
EVERY_S: Final = 1.0
ANSWER_S: Final = 5.0
STALLED_S: Final = 30.0
"""A batch takes milliseconds; with lag and without one for this long the stream stands still."""
UNREADY_S: Final = 60.0
"""A recovery reads thousands of rows a second; with no row, no new assignment and Kafka there for so long it waits for what doesn't come."""
HOPELESS_S: Final = 120.0
"""Then the process ends, for either reason: a restart takes seconds."""


def lag(ends: Mapping[TP, int], positions: Mapping[TP, int]) -> dict[TP, int]:
    """Records between our position and the end of each partition; a partition without a position counts nothing."""
    return {tp: max(0, end - positions[tp]) for tp, end in ends.items() if tp in positions}


class HealthMonitor:
    """Asks the broker once a second for the ends of the owned partitions."""

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
    ) -> None:
        self._topics = (settings.topics.executions, settings.topics.commands)
        self._app = app
        self._table = table
        self._owner = owner
        self._lifeline = watchdog
        self._metrics = metrics
        self._kafka_answers = kafka_answers
        self._lagging_since: float | None = None
        self._moved_at = time.monotonic()
        self._recovered: object = None
        self._answered_at = time.monotonic()

    @property
    def unready_for(self) -> float:
        """Seconds in which the worker was not ready and its recovery did not move, although Kafka answered."""
        return time.monotonic() - self._moved_at

    @property
    def stalled_for(self) -> float:
        """Seconds in which there was lag and no batch was finished."""
        if self._lagging_since is None:
            return 0.0
        return max(0.0, time.monotonic() - max(self._lagging_since, self._owner.progressed_at))

    @property
    def silent_for(self) -> float:
        """Seconds since the broker last told the ends."""
        return time.monotonic() - self._answered_at

    def problem(self) -> str | None:
        """What makes this worker unhealthy, in a sentence."""
        if self._lifeline.failed.done():
            return self._lifeline.failed.result()
        if self.silent_for > STALLED_S:  # first: it is the cause of the others
            return f"Kafka has not answered for {self.silent_for:.0f} s."
        if self.stalled_for > STALLED_S:
            return f"The stream has stood still for {self.stalled_for:.0f} s while there is lag."
        if self.unready_for > UNREADY_S:
            return f"The worker has not been ready, nor got nearer to it, for {self.unready_for:.0f} s."
        return None

    async def run(self) -> None:
        """HealthMonitor for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self._look()
            if self.stalled_for > HOPELESS_S:
                self._lifeline.report(f"The stream stood still for {self.stalled_for:.0f} s while there was lag.")
            if self.unready_for > HOPELESS_S:
                self._lifeline.report(f"The recovery stood still for {self.unready_for:.0f} s.")

    async def _look(self) -> None:
        owner, metrics = self._owner, self._metrics
        metrics.ready.set(owner.ready)
        metrics.partitions.set(len(owner.partitions))
        metrics.table_rows.set(len(self._table.rows))
        metrics.stale_rows.set(self._table.stale_rows)
        metrics.observe_circuits(owner.states())
        recovered = (self._app.consumer_generation_id, self._table.read)
        if owner.ready or recovered != self._recovered or self.silent_for > ANSWER_S + EVERY_S:
            self._moved_at, self._recovered = time.monotonic(), recovered
        if not owner.ready:
            self._lagging_since = None
            owned = []
        else:
            owned = [TP(topic, partition) for topic in self._topics for partition in sorted(owner.partitions)]
        try:
            async with asyncio.timeout(ANSWER_S):
                if not owned:  # a consumer without partitions asks the broker nothing
                    if await self._kafka_answers():
                        self._answered_at = time.monotonic()
                    return
                ends = await self._app.consumer.highwaters(*owned)
                positions = {tp: await self._position(tp) for tp in owned}
        except Exception as error:  # noqa: BLE001 - whatever the consumer thread raises, it told nothing
            log.warning("lag_unknown", error=repr(error))
            return
        self._answered_at = time.monotonic()
        behind = lag({TP(*tp): end for tp, end in ends.items()}, positions)
        for topic in self._topics:
            metrics.lag.labels(topic).set(sum(count for tp, count in behind.items() if tp.topic == topic))
        if any(behind.values()):
            self._lagging_since = self._lagging_since or time.monotonic()
        else:
            self._lagging_since = None
        metrics.last_progress.set(self.stalled_for)

    async def _position(self, tp: TP) -> int:
        """The next offset to fold; before the first batch, where the consumer stands."""
        folded = self._owner.continuity.position(tp)
        return (await self._app.consumer.position(tp) or 0) if folded is None else folded
