"""A circuit has at most N probes in flight, and every lease is used once, by the process that it names.

A probe is a call that begins under a lease of its tool's circuit, or of that of its tool's server. It is in flight until it ends or its process dies, even if the circuit is no longer half-open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.permits import Permit
from tests.simulator.invariants.broken import Histories
from tests.simulator.tools import SimulatedServer, SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess


NAME: Final = "at-most-n-probes"


def leases_of(tool: SimulatedTool, permit: Permit) -> Iterator[tuple[SimulatedTool | SimulatedServer, str]]:
    """Yield what a call probes, the tool or its server, and the lease."""
    if permit.lease is not None:
        yield tool, permit.lease[1]
    if permit.family is not None and permit.family.lease is not None:
        assert tool.server is not None
        yield tool.server, permit.family.lease[1]


class Probes:
    """Counts leases and probes."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._granted: dict[str, dict[str, str]] = {}
        self._flying: dict[str, dict[str, SimulatedProcess]] = {}
        self._used: dict[str, set[str]] = {}
        self.granted = self.flown = 0
        self.most: Counter[int] = Counter()
        """The most probes in flight at a time, by the number permitted."""

    def published(self, record: dict[str, Any]) -> None:
        """Note the leases of a record."""
        circuit_id = record["circuit_id"]
        granted = self._granted.setdefault(circuit_id, {})
        for lease in record["leases"]:
            holder = granted.get(lease["lease_id"])
            if holder is None:
                granted[lease["lease_id"]] = lease["emitter_id"]
                self.granted += 1
                self._histories.note(circuit_id, "lease {} for {}", lease["lease_id"], lease["emitter_id"])
            elif holder != lease["emitter_id"]:
                what = f"lease {lease['lease_id']} was for {holder} and is now for {lease['emitter_id']}"
                raise self._histories.broken(NAME, circuit_id, what)

    def began(self, process: SimulatedProcess, tool: SimulatedTool, permit: Permit) -> None:
        """Check a call that begins under a lease."""
        for of, lease_id in leases_of(tool, permit):
            self._began(process, of, lease_id)

    def _began(self, process: SimulatedProcess, of: SimulatedTool | SimulatedServer, lease_id: str) -> None:
        self.flown += 1
        circuit_id = of.circuit_id
        holder = self._granted.get(circuit_id, {}).get(lease_id)
        if holder != process.name:
            what = f"{process.name} probes under lease {lease_id}, which belongs to {holder or 'no process'}"
            raise self._histories.broken(NAME, circuit_id, what)
        used = self._used.setdefault(circuit_id, set())
        if lease_id in used:
            raise self._histories.broken(NAME, circuit_id, f"lease {lease_id} is used a second time")
        used.add(lease_id)
        flying = self._flying.setdefault(circuit_id, {})
        flying[lease_id] = process
        permitted = of.policy.permitted_number_of_calls_in_half_open_state
        self.most[permitted] = max(self.most[permitted], len(flying))
        if len(flying) > permitted:
            held = ", ".join(f"{lease} ({one.name})" for lease, one in flying.items())
            raise self._histories.broken(
                NAME, circuit_id, f"{len(flying)} probes in flight, {permitted} permitted: {held}"
            )

    def ended(self, tool: SimulatedTool, permit: Permit) -> None:
        """Note that a call ended."""
        for of, lease_id in leases_of(tool, permit):
            self._flying.get(of.circuit_id, {}).pop(lease_id, None)

    def used(self, circuit_id: str, lease_id: str) -> bool:
        """Return whether a call began under the lease."""
        return lease_id in self._used.get(circuit_id, ())

    def crashed(self, process: SimulatedProcess) -> None:
        """Remove the calls of a process that died."""
        for flying in self._flying.values():
            for lease_id in [lease for lease, one in flying.items() if one is process]:
                del flying[lease_id]

    def line(self) -> str:
        """Return the result in one line."""
        most = ", ".join(f"{seen} of {permitted}" for permitted, seen in sorted(self.most.items())) or "none"
        return f"{NAME}: held ({self.flown} probes under {self.granted} leases; most in flight: {most})"
