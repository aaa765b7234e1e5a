"""Successes of a family that follow each other in the log, counted together."""

from __future__ import annotations

from switchgear.breaker.steady import Steady
from switchgear.fleet.log import MAX_EMITTER_ID, LogRecord
from switchgear_schemas.wire import Execution


class FamilyRun:
    """Plain successes, each of which changes only the number of calls.

    Attributes:
        partition: Where they lie.
        offset: The last one.
        clock: When the broker got it.
        count: How many there are.
    """

    __slots__ = (
        "_generation", "_reporters", "_slow_ms", "_stamp", "_tools", "_until", "clock", "count", "offset", "partition",
    )  # fmt: skip

    def __init__(self, steady: Steady, generation: int, record: LogRecord, now: float) -> None:
        self._until, self._slow_ms, self._stamp, self._reporters, self._tools = steady
        self._generation = generation
        self.partition, self.offset = record.partition, record.offset
        self.clock = now
        self.count = 0

    def takes(self, record: LogRecord, event: Execution, now: float) -> bool:
        """Count an event that is not late, or return False if it must be folded on its own."""
        generation = event.family_generation
        if (
            event.status != "success"
            or event.error_class is not None
            or event.overdue_ms is not None
            or record.offset <= self.offset
            or record.partition != self.partition
            or not self.clock <= now < self._until
            or record.headers
            or (generation is not None and generation < self._generation)
            or (event.execution_time_ms or 0.0) > self._slow_ms
            or (self._tools is not None and event.tool_name not in self._tools)
            or (
                self._reporters is not None
                and self._reporters.get(event.counted_reporter[:MAX_EMITTER_ID]) != self._stamp
            )
        ):
            return False
        self.offset = record.offset
        self.clock = now
        self.count += 1
        return True
