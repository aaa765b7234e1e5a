"""The fleet keeps a tool's rate limit: in no period does it make more than a tenth more calls than the limit permits.

A limit that is learned changes. It permits the sum of what it was. The check begins :data:`CONVERGES_S` after the first record of a limit.
A process that starts makes one call before it is seen. One that was cut off keeps the share that it had, and the others get it too: its
calls are not counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from tests.simulator.invariants.broken import Histories
from tests.simulator.tools import SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


NAME: Final = "kept-pace"
CONVERGES_S: Final = 30.0
MARGIN: Final = 1.1


class _Kept:
    """The calls of one tool, and the rates that its records said."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.calls: deque[tuple[float, SimulatedProcess]] = deque()
        self.rates: deque[tuple[float, float]] = deque()
        self.period_s = 0.0
        self.worst = 0.0

    def permitted(self, begin: float, end: float) -> float:
        """Return how many calls the rates permit between two instants."""
        total, until = 0.0, end
        for at, rate in reversed(self.rates):
            total += rate * max(0.0, until - max(at, begin))
            until = min(until, at)
            if at <= begin:
                break
        return total


class Pace:
    """Counts the calls of every tool whose limit is kept."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._kept: dict[str, _Kept] = {}
        self._started: deque[float] = deque()
        self.checked = 0
        self.records = 0

    def started(self) -> None:
        """Note that a process starts."""
        self._started.append(self._simulation.agenda.now)

    def published(self, record: dict[str, Any]) -> None:
        """Note the rate of a record."""
        pace = record["pace"]
        if pace is None or pace["mode"] != "enforce" or not pace["limits"]:
            return
        (limit,), now = pace["limits"], self._simulation.agenda.now
        self.records += 1
        kept = self._kept.setdefault(record["circuit_id"], _Kept(now))
        kept.rates.append((now, limit["rate"]))
        kept.period_s = limit["period_s"]

    def began(self, process: SimulatedProcess, tool: SimulatedTool) -> None:
        """Count a call that begins, and check the period that ends with it."""
        kept = self._kept.get(tool.circuit_id)
        if kept is None:
            return
        now, period_s = self._simulation.agenda.now, kept.period_s
        kept.calls.append((now, process))
        while kept.calls[0][0] <= now - period_s:
            kept.calls.popleft()
        while len(kept.rates) > 1 and kept.rates[1][0] <= now - period_s:
            kept.rates.popleft()
        if now < kept.since + CONVERGES_S + period_s:
            return
        new = sum(now - period_s - CONVERGES_S < at for at in self._started)
        cut_off = {each for each in self._simulation.processes if each.disturbed_since(now - 2 * period_s)}
        made = sum(caller not in cut_off for _, caller in kept.calls)
        permitted = kept.permitted(now - period_s, now)
        self.checked += 1
        kept.worst = max(kept.worst, (made - new) / permitted)
        if made > MARGIN * permitted + new:
            what = f"{process.name} makes call {made} in {period_s:g} s, in which {permitted:.1f} are permitted"
            raise self._histories.broken(NAME, tool.circuit_id, what)

    def line(self) -> str:
        """Return the result in one line."""
        worst = max((kept.worst for kept in self._kept.values()), default=0.0)
        word = "held" if self.checked else "not tested"
        calls = f"{self.checked} calls of {len(self._kept)} tools, {self.records} records"
        return f"{NAME}: {word} ({calls}; the fullest period had {worst:.0%} of its calls)"
