"""Plain successes of one circuit that follow each other in the log, counted together.

Nearly all events are successes of closed circuits. One by one, the breaker would judge each of them, although none changes a decision.
"""

from __future__ import annotations

from switchgear.breaker.steady import Steady
from switchgear.fleet.log import MAX_EMITTER_ID, LogRecord
from switchgear_schemas.wire import Execution


class Run:
    """Successes, each of which changes only numbers.

    Attributes:
        partition: Where they lie.
        offset: The last one.
        clock: When the broker got it.
        count: How many there are that the circuit has not counted yet.
        durations: How long those took, in milliseconds. Of a tool's own circuit only.
    """

    __slots__ = (
        "_callers", "_generation", "_slow_ms", "_tools", "_until",
        "clock", "count", "durations", "offset", "partition",
    )  # fmt: skip

    def __init__(self, steady: Steady, generation: int, record: LogRecord, now: float, until: float) -> None:
        pane_end, self._slow_ms, self._tools, self._callers = steady
        self._until = min(pane_end, until)
        self._generation = generation
        self.partition, self.offset = record.partition, record.offset
        self.clock = now
        self.count = 0
        self.durations: list[float] = []

    def is_open(self, now: float) -> bool:
        """Return whether the run takes successes at ``now``."""
        return self.clock <= now < self._until

    def admits(self, record: LogRecord, event: Execution, generation: int | None, now: float) -> bool:
        """Return whether a :func:`plain <is_plain>` success, permitted by ``generation`` of the circuit, belongs to the run."""
        return (
            self.clock <= now < self._until
            and record.offset > self.offset
            and record.partition == self.partition
            and (event.execution_time_ms or 0.0) <= self._slow_ms
            and (generation is None or generation >= self._generation)
            and (self._tools is None or event.tool_name in self._tools)
        )

    def add(self, record: LogRecord, event: Execution, now: float) -> bool:
        """Count a success that the run admits. Return whether it is the first one since the circuit counted."""
        self.offset = record.offset
        self.clock = now
        self.count += 1
        evidence = self._callers
        if evidence is not None:
            name = event.counted_reporter[:MAX_EMITTER_ID]
            if evidence.callers.seen.get(name) != evidence.window.stamp:
                evidence.add_caller(name)
                if evidence.knows_callers:
                    self._callers = None
        return self.count == 1


def is_plain(record: LogRecord, event: Execution) -> bool:
    """Return whether an execution is a success that says nothing else, at its own place in the log."""
    return event.status == "success" and event.error_class is None and event.overdue_ms is None and not record.headers
