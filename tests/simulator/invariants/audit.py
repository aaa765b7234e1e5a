"""All invariants of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from switchgear.fleet import Message
from switchgear.guard.decision import PendingProbe
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.evidence import Evidence
from tests.simulator.invariants.probes import Probes
from tests.simulator.invariants.ramp import Ramp
from tests.simulator.invariants.rebuild import Rebuild
from tests.simulator.invariants.records import Records, Views
from tests.simulator.invariants.recovery import Recovery
from tests.simulator.invariants.refusals import Refusals
from tests.simulator.tools import SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


class Audit:
    """Passes every step to the invariants, and collects their results."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        again = f"python -m tests.simulator {simulation.scenario.arguments()}"
        self.histories = histories = Histories(lambda: simulation.agenda.now, again)
        self.probes = Probes(histories)
        self.refusals = Refusals(histories)
        self.records = Records(simulation, histories)
        self.evidence = Evidence(simulation, histories)
        self.recovery = Recovery(simulation, histories)
        self.ramp = Ramp(simulation, histories)
        self.rebuild = Rebuild(simulation, histories)
        self.views = Views(histories)
        self.dead_letters = 0

    def arrived(
        self, process: SimulatedProcess, tool: SimulatedTool, answer: Permit | Rejection | PendingProbe
    ) -> None:
        """Check the answer to a call that asked for a permit."""
        record = self.records.newest.get(tool.name)
        if isinstance(answer, PendingProbe):
            self.histories.note(tool.name, "{} asks, knows version {}", process.name, process.version(tool.name))
        self.recovery.arrived(process, tool, answer, record)
        self.ramp.arrived(process, tool, answer)

    def began(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit) -> None:
        """Check a call that begins."""
        if permit.lease_id is not None:
            self.histories.note(tool.name, "{} probes under lease {}", process.name, permit.lease_id)
        self.refusals.began(process, tool, permit, self._simulation.workers)
        self.probes.began(process, tool, permit)

    def ended(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit) -> None:
        """Note that a call ended."""
        if permit.lease_id is not None:
            self.histories.note(tool.name, "{} has its probe's result, lease {}", process.name, permit.lease_id)
        self.probes.ended(tool, permit)

    def crashed(self, process: SimulatedProcess) -> None:
        """Note that a process died."""
        self.probes.crashed(process)

    def published(self, record: dict[str, Any], message: Message) -> None:
        """Check a record of the circuits topic."""
        known = self.records.newest.get(record["circuit_id"])
        if not self.records.published(record, message):
            return
        self.probes.published(record)
        self.evidence.published(record, known)
        self.recovery.published(record, known)
        self.ramp.published(record, known, message)

    def executed(self, event: dict[str, Any], message: Message) -> None:
        """Note a message of the executions topic."""
        self.evidence.executed(event, message)

    def commanded(self, command: dict[str, Any], message: Message) -> None:
        """Note a message of the commands topic."""
        tool = command["tool_name"]
        self.histories.note(tool, "command {}", command["verb"])
        self.evidence.commanded(tool, command["verb"], message)
        self.rebuild.commanded(tool, message)

    def checkpoint(self) -> None:
        """Compare the rows with a rebuild. Call it between two steps."""
        self.rebuild.checkpoint()

    def finish(self) -> None:
        """Make the checks at the end, when nothing moves any more."""
        self.rebuild.checkpoint()
        rows = self.rebuild.rows()
        self.evidence.finish(rows)
        self.records.finish(rows)
        self.views.finish(self._simulation.processes, self.records)

    def lines(self) -> list[str]:
        """Return one line per invariant."""
        return [
            self.probes.line(),
            self.refusals.line(),
            self.records.line(),
            *self.evidence.lines(),
            self.recovery.line(),
            self.ramp.line(),
            self.rebuild.line(),
            self.views.line(),
        ]
