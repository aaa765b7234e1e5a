"""A process that knows that a circuit is open makes no call, except under a live lease or while it is out of reach.

The same holds for the circuit of a tool's server. A probe of the server may go although the tool's own circuit is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.permits import Permit
from tests.simulator.agenda import EPOCH, instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.probes import leases_of
from tests.simulator.scenario import SILENCE_S, STALE_AFTER_S
from tests.simulator.tools import SimulatedServer, SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.workers import Workers


NAME: Final = "no-call-while-open"
TOLERANCE_S: Final = 2.5
"""The guard ignores clocks that are less than a second apart, and a record may wait for another second."""
PASSING: Final = frozenset({"closed", "disabled", "metrics_only"})


class Refusals:
    """Compares every call with the last record that its process received, read as plain JSON."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self.checked = 0
        self.alone = 0
        """Calls that processes out of reach made on their own decision."""

    def began(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit, workers: Workers) -> None:
        """Check a call that begins: of its tool, and of its tool's server."""
        leases = {of.circuit_id: lease_id for of, lease_id in leases_of(tool, permit)}
        server = tool.server
        if server is not None:
            self._check(process, server, leases.get(server.circuit_id), workers)
        record = process.received.get(tool.circuit_id)
        by_server = server is not None and server.circuit_id in leases
        if record is None or not by_server or record["state"] == "forced_open":
            self._check(process, tool, leases.get(tool.circuit_id), workers)

    def _check(
        self,
        process: SimulatedProcess,
        of: SimulatedTool | SimulatedServer,
        lease_id: str | None,
        workers: Workers,
    ) -> None:
        record = process.received.get(of.circuit_id)
        if record is None or record["state"] in PASSING:
            return
        self.checked += 1
        if lease_id is not None:
            self._under_lease(process, record, lease_id)
        elif self._out_of_reach(process, of, workers):
            self.alone += 1
        else:
            what = f"{process.name} calls without a lease, and knows version {record['version']}: {record['state']}"
            raise self._histories.broken(NAME, of.circuit_id, what)

    def _under_lease(self, process: SimulatedProcess, record: dict[str, Any], lease_id: str) -> None:
        found = [lease for lease in record["leases"] if lease["lease_id"] == lease_id]
        if not found or found[0]["emitter_id"] != process.name:
            what = f"{process.name} probes under lease {lease_id}, which version {record['version']} does not give it"
            raise self._histories.broken(NAME, record["circuit_id"], what)
        late = EPOCH + process.agenda.now - instant(found[0]["expires_at"])
        if late >= TOLERANCE_S:
            what = f"{process.name} probes under lease {lease_id}, {late:.3f} s after its end"
            raise self._histories.broken(NAME, record["circuit_id"], what)

    def _out_of_reach(self, process: SimulatedProcess, of: SimulatedTool | SimulatedServer, workers: Workers) -> bool:
        now = process.agenda.now
        if process.mute_since is not None:
            return True
        if process.deaf_since is not None and now - process.deaf_since >= STALE_AFTER_S:
            return True
        if not process.silent(of.circuit_id):
            return False
        first = process.asked[of.circuit_id][1]
        if workers.away_within(of.partition, first) or process.disturbed_since(first):
            return True
        if not process.informed and process.skew_s >= SILENCE_S:
            return True  # it started with a clock that is ahead, and no record has corrected it yet
        what = (
            f"{process.name} asked for {SILENCE_S:g} s and decides alone, though the circuit had its owner all the time"
        )
        raise self._histories.broken(NAME, of.circuit_id, what)

    def line(self) -> str:
        """Return the result in one line."""
        return f"{NAME}: held ({self.checked} calls of processes that knew of the open circuit: {self.checked - self.alone} under a lease, {self.alone} out of reach)"
