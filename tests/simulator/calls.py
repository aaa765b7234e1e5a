"""The simulated calls: a call arrives, a guard decides, the call runs and ends, and its guard gets the outcome."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.guard.attempts import Pending, PendingProbe
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from switchgear_schemas.enums import status_of
from tests.simulator.agenda import EPOCH
from tests.simulator.scenario import PROBE_WAIT_S
from tests.simulator.tools import SimulatedOutcome, SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


CRASH_WITHIN_S: Final = 5.0
"""A process that is going to die during its probe dies within this time."""
_MISROUTED: Final = 0.1
"""Share of the foreign events that go to any partition."""
_LATE: Final = 0.01
"""Share of the foreign events that were recorded ten minutes ago and come from a spool."""


class _Waiting:
    """A call that waits for the answer to its request for a probe, or for its turn."""

    __slots__ = ("done", "pending", "process", "tool")

    def __init__(self, process: SimulatedProcess, tool: SimulatedTool, pending: Pending) -> None:
        self.process = process
        self.tool = tool
        self.pending = pending
        self.done = False


class Calls:
    """The calls of every tool: a Poisson process, spread evenly over the processes. This equals one Poisson process per process and tool."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._waiting: dict[str, list[_Waiting]] = {}
        self.waited = 0
        """How often a call waited for its turn, or for news of it."""
        self.asked = self.permitted = self.refused = self.refused_locally = self.foreign = 0
        for tool in simulation.tools:
            self._next(tool)

    def wake(self, circuit_id: str, index: int) -> None:
        """Let every process that waits for this circuit read record ``index`` of the feed when it arrives."""
        for waiting in self._waiting.get(circuit_id, ()):
            process = waiting.process
            self._simulation.agenda.at(max(process.seen_at, process.visible_at(index)), self._read, process)

    def _read(self, process: SimulatedProcess) -> None:
        if process.alive:
            process.catch_up()

    def _next(self, tool: SimulatedTool) -> None:
        simulation = self._simulation
        at = simulation.agenda.now + simulation.rng.expovariate(tool.calls_per_s)
        if at < simulation.scenario.length_s:
            simulation.agenda.at(at, self._arrive, tool)

    def _arrive(self, tool: SimulatedTool) -> None:
        self._next(tool)
        simulation = self._simulation
        if tool.foreign and simulation.rng.random() < simulation.scenario.foreign_share:
            self._unguarded(tool)
            return
        number = simulation.scenario.caller(simulation.agenda.now, simulation.rng)
        if number is None or not (process := simulation.processes[number]).alive:
            return
        process.catch_up()
        answer = process.decision.acquire(tool.name)
        simulation.audit.arrived(process, tool, answer)
        self._wait_or_go_on(process, tool, answer)

    def _wait_or_go_on(
        self, process: SimulatedProcess, tool: SimulatedTool, answer: Permit | Rejection | Pending
    ) -> None:
        if isinstance(answer, PendingProbe):
            self.asked += 1
            process.note_asked(answer.view.circuit_id)
            self._simulation.trace("ask", process.name, tool.name, answer.view.circuit_id)
            self._wait(process, tool, answer, PROBE_WAIT_S)
        elif isinstance(answer, Pending):
            self.waited += 1
            assert answer.wait_s is not None
            self._wait(process, tool, answer, answer.wait_s)
        else:
            self._go_on(process, tool, answer)

    def _wait(self, process: SimulatedProcess, tool: SimulatedTool, pending: Pending, seconds: float) -> None:
        simulation, waiting = self._simulation, _Waiting(process, tool, pending)
        self._waiting.setdefault(pending.view.circuit_id, []).append(waiting)
        pending.answer.add_done_callback(lambda _: simulation.agenda.after(0.0, self._answered, waiting))
        simulation.agenda.after(seconds, self._answered, waiting)

    def _answered(self, waiting: _Waiting) -> None:
        if waiting.done:
            return
        waiting.done = True
        others = self._waiting[waiting.pending.view.circuit_id]
        others.remove(waiting)
        if waiting.process.alive:
            answer = waiting.process.decision.after_answer(waiting.pending)
            self._wait_or_go_on(waiting.process, waiting.tool, answer)

    def _go_on(self, process: SimulatedProcess, tool: SimulatedTool, answer: Permit | Rejection) -> None:
        simulation = self._simulation
        if isinstance(answer, Rejection):
            self.refused += 1
            self.refused_locally += answer.source == "local"
            simulation.trace("no", process.name, tool.name, answer.source)
            assert process.decision.fleet is not None
            process.decision.fleet.refusals.refused(answer)
            return
        self.permitted += 1
        simulation.trace("yes", process.name, tool.name, answer.lease_id)
        outcome = tool.call(simulation.agenda.now, simulation.rng)
        simulation.audit.began(process, tool, answer)
        simulation.agenda.after(outcome.seconds, self._end, process, tool, answer, outcome)
        if answer.lease_id is not None and simulation.rng.random() < simulation.scenario.holder_crash_share:
            simulation.agenda.after(CRASH_WITHIN_S * simulation.rng.random(), simulation.faults.crash, process)

    def _end(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit, outcome: SimulatedOutcome) -> None:
        if not process.alive:
            return
        self._simulation.audit.ended(process, tool, permit)
        if outcome.error is None:
            permit.success()
        else:
            permit.failure(outcome.error)

    def _unguarded(self, tool: SimulatedTool) -> None:
        """Make a call of a process without a guard. It asks for no permit, and sends plain JSON when it ends."""
        simulation = self._simulation
        self.foreign += 1
        outcome = tool.call(simulation.agenda.now, simulation.rng)
        simulation.agenda.after(outcome.seconds, self._report, tool, outcome, int(simulation.rng.random() * 5))

    def _report(self, tool: SimulatedTool, outcome: SimulatedOutcome, emitter: int) -> None:
        simulation = self._simulation
        event: dict[str, object] = {
            "tool_name": tool.name,
            "status": "success",
            "execution_time_ms": outcome.seconds * 1000,
            "emitter_id": f"foreign{emitter}",
            "metric_id": simulation.mint(),
        }
        if outcome.error is not None:
            kind = outcome.error.classification
            event |= {
                "status": status_of(kind.error_class),
                "error_class": kind.error_class,
            }
            if kind.retry_after_s is not None:
                event["retry_after_s"] = kind.retry_after_s
        if simulation.rng.random() < _LATE:
            event["recorded_at"] = datetime.fromtimestamp(EPOCH + simulation.agenda.now - 600, UTC).isoformat()
        value = msgspec.json.encode(event)
        if simulation.rng.random() >= _MISROUTED:
            simulation.receive(tool, value)
            return
        partition = int(simulation.rng.random() * simulation.scenario.partitions)
        key = None if partition % 2 else tool.name.encode()
        simulation.log.append(simulation.names.executions, key, value, partition=partition)
