"""A process that knows that a circuit is open makes no call, except under a live lease or while it is out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.permits import Permit
from tests.simulator.agenda import EPOCH, instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.scenario import SILENCE_S, STALE_AFTER_S
from tests.simulator.tools import SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.workers import Workers


NAME: Final = "no-call-while-open"
TOLERANCE_S: Final = 2.5
"""The guard ignores clocks that are less than a second apart, and a record may wait for another second."""
_PASSING: Final = frozenset({"closed", "disabled", "metrics_only"})


class Refusals:
    """Compares every call with the last record that its process received, read as plain JSON."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self.checked = 0
        self.alone = 0
        """Calls that processes out of reach made on their own decision."""

    def began(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit, workers: Workers) -> None:
        """Check a call that begins."""
        record = process.received.get(tool.name)
        if record is None or record["state"] in _PASSING:
            return
        self.checked += 1
        if permit.lease_id is not None:
            self._under_lease(process, record, permit.lease_id)
        elif self._out_of_reach(process, tool, workers):
            self.alone += 1
        else:
            what = f"{process.name} calls without a lease, and knows version {record['version']}: {record['state']}"
            raise self._histories.broken(NAME, tool.name, what)

    def _under_lease(self, process: SimulatedProcess, record: dict[str, Any], lease_id: str) -> None:
        found = [lease for lease in record["leases"] if lease["lease_id"] == lease_id]
        if not found or found[0]["emitter_id"] != process.name:
            what = f"{process.name} probes under lease {lease_id}, which version {record['version']} does not give it"
            raise self._histories.broken(NAME, record["circuit_id"], what)
        late = EPOCH + process.agenda.now - instant(found[0]["expires_at"])
        if late >= TOLERANCE_S:
            what = f"{process.name} probes under lease {lease_id}, {late:.3f} s after its end"
            raise self._histories.broken(NAME, record["circuit_id"], what)

    def _out_of_reach(self, process: SimulatedProcess, tool: SimulatedTool, workers: Workers) -> bool:
        now = process.agenda.now
        if process.mute_since is not None:
            return True
        if process.deaf_since is not None and now - process.deaf_since >= STALE_AFTER_S:
            return True
        if not process.silent(tool.name):
            return False
        first = process.asked[tool.name][1]
        if workers.away_within(tool.partition, first) or process.disturbed_since(first):
            return True
        if not process.informed and process.skew_s >= SILENCE_S:
            return True  # it started with a clock that is ahead, and no record has corrected it yet
        what = (
            f"{process.name} asked for {SILENCE_S:g} s and decides alone, though the circuit had its owner all the time"
        )
        raise self._histories.broken(NAME, tool.name, what)

    def line(self) -> str:
        """Return the result in one line."""
        return f"{NAME}: held ({self.checked} calls of processes that knew of the open circuit: {self.checked - self.alone} under a lease, {self.alone} out of reach)"
