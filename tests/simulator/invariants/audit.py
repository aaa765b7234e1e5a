"""All invariants of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from switchgear.fleet import Message
from switchgear.guard.attempts import Pending, PendingProbe
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.evidence import Evidence
from tests.simulator.invariants.families import Families
from tests.simulator.invariants.pace import Pace
from tests.simulator.invariants.probes import Probes, leases_of
from tests.simulator.invariants.ramp import Ramp
from tests.simulator.invariants.rebuild import Rebuild
from tests.simulator.invariants.records import NAME, Records, Views
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
        self.families = Families(simulation, histories)
        self.refusals = Refusals(histories)
        self.records = Records(simulation, histories)
        self.evidence = Evidence(simulation, histories)
        self.recovery = Recovery(simulation, histories)
        self.ramp = Ramp(simulation, histories)
        self.pace = Pace(simulation, histories)
        self.rebuild = Rebuild(simulation, histories)
        self.views = Views(histories)
        self.dead_letters = 0

    def arrived(self, process: SimulatedProcess, tool: SimulatedTool, answer: Permit | Rejection | Pending) -> None:
        """Check the answer to a call that asked for a permit."""
        if isinstance(answer, PendingProbe):
            circuit_id = answer.view.circuit_id
            self.histories.note(circuit_id, "{} asks, knows version {}", process.name, process.version(circuit_id))
        self.recovery.arrived(process, tool, answer, self.records.newest)
        self.ramp.arrived(process, tool, answer)

    def began(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit) -> None:
        """Check a call that begins."""
        for of, lease_id in leases_of(tool, permit):
            self.histories.note(of.circuit_id, "{} probes {} under lease {}", process.name, tool.name, lease_id)
        self.refusals.began(process, tool, permit, self._simulation.workers)
        self.probes.began(process, tool, permit)
        self.families.began(tool, permit)
        self.pace.began(process, tool)

    def ended(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit) -> None:
        """Note that a call ended."""
        for of, lease_id in leases_of(tool, permit):
            self.histories.note(of.circuit_id, "{} has its probe's result, lease {}", process.name, lease_id)
        self.probes.ended(tool, permit)

    def started(self) -> None:
        """Note that a process starts."""
        self.pace.started()

    def crashed(self, process: SimulatedProcess) -> None:
        """Note that a process died."""
        self.probes.crashed(process)

    def published(self, record: dict[str, Any], message: Message) -> None:
        """Check a record of the circuits topic."""
        known = self.records.newest.get(record["circuit_id"])
        owner = self._simulation.by_name[record["tool_name"]].partition
        if message.partition != owner:
            what = f"partition {message.partition} has a record, and partition {owner} owns it"
            raise self.histories.broken(NAME, record["circuit_id"], what)
        if not self.records.published(record, message):
            return
        self.probes.published(record)
        self.evidence.published(record, known)
        self.recovery.published(record, known)
        self.families.published(record, known, self.records.newest)
        self.ramp.published(record, known, message)
        self.pace.published(record)

    def executed(self, event: dict[str, Any], message: Message) -> None:
        """Note a message of the executions topic."""
        self.evidence.executed(event, message)
        self.ramp.executed(event, message)

    def commanded(self, command: dict[str, Any], message: Message) -> None:
        """Note a message of the commands topic."""
        circuit_id = command.get("circuit_id") or command["tool_name"]
        self.histories.note(circuit_id, "command {}", command["verb"])
        self.evidence.commanded(circuit_id, command["verb"], message)
        self.rebuild.commanded(circuit_id, message)

    def checkpoint(self) -> None:
        """Compare the rows with a rebuild. Call it between two steps."""
        self.rebuild.checkpoint()

    def finish(self) -> None:
        """Make the checks at the end, when nothing moves any more."""
        self.rebuild.checkpoint()
        rows = self.rebuild.rows()
        self.evidence.finish(rows)
        self.records.finish(rows)
        for server in self._simulation.servers:
            self.families.check(server)
        self.views.finish(self._simulation.processes, self.records)

    def lines(self) -> list[str]:
        """Return one line per invariant. That of limits only if a tool has one."""
        limited = any(tool.quota is not None for tool in self._simulation.tools)
        return [
            self.probes.line(),
            self.refusals.line(),
            self.records.line(),
            *self.evidence.lines(),
            self.recovery.line(),
            self.families.line(),
            self.ramp.line(),
            *([self.pace.line()] if limited else []),
            self.rebuild.line(),
            self.views.line(),
        ]
