"""A worker that makes no progress, for the tests of its health and its HTTP server."""

from __future__ import annotations

from types import SimpleNamespace

from faust.types import TP

from switchgear_schemas.settings import load_settings
from switchgear_stream.health_monitor import HealthMonitor
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.watchdog import Watchdog
from tests.support.clock import Clock

LOOK_S = 5.0


class StandingWorker:
    """The owner, the Faust application and its consumer in one, with a monitor and a clock. The test moves the clock.

    Args:
        end: The end offset of every partition.
        position: The offset that is folded next.
        ready: Whether the recovery has ended.
        partitions: The assigned partitions.
    """

    def __init__(
        self, *, end: int = 0, position: int = 0, ready: bool = True, partitions: frozenset[int] = frozenset({0})
    ) -> None:
        self.ready = ready
        self.partitions = partitions
        self.clock = Clock()
        self.progressed_at = self.clock()
        self.offsets = SimpleNamespace(position=lambda _tp: position)
        self.consumer = self
        self.consumer_generation_id = 1
        self.kafka_is_there = True
        self.table = SimpleNamespace(rows={}, stale_rows=0, read=0)
        self.metrics = WorkerMetrics()
        self.watchdog = Watchdog(6)
        self._end = end
        self.monitor = HealthMonitor(
            settings=load_settings(topic_prefix="t."),
            app=self,  # type: ignore[arg-type]
            table=self.table,  # type: ignore[arg-type]
            owner=self,  # type: ignore[arg-type]
            watchdog=self.watchdog,
            metrics=self.metrics,
            kafka_answers=self.answers,
            clock=self.clock,
        )

    def states(self) -> dict[str, int]:
        """Return the circuits by state."""
        return {"open": 2, "closed": 5}

    async def highwaters(self, *tps: TP) -> dict[TP, int]:
        """Return the ends of the partitions."""
        return dict.fromkeys(tps, self._end)

    async def answers(self) -> bool:
        """Return whether Kafka answers."""
        return self.kafka_is_there

    async def problem_after(self, seconds: float) -> str:
        """Look every few seconds of the clock for so long, and return the problem; empty if the worker is healthy."""
        end = self.clock.now + seconds
        while True:
            await self.monitor.look()
            if self.clock.now >= end:
                break
            self.clock.now = min(end, self.clock.now + LOOK_S)
        return self.monitor.problem() or ""
