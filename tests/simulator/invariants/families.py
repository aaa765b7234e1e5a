"""What a server's circuit promises beyond what every circuit does.

In each half-open stay at most N calls probe the server, whatever its number of tools. When a probe closes the circuit, the circuits of
its tools that opened since the outage began may be probed at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.permits import Permit
from tests.simulator.agenda import instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.probes import leases_of
from tests.simulator.tools import SimulatedServer, SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


NAME: Final = "server-recovers-at-once"
WINDOW_S: Final = 60.0
"""An outage begins at most this long before its circuit opens."""


class Families:
    """Counts the probes of each half-open stay, and follows the circuits of tools when their server answers again."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._probes: Counter[tuple[str, str]] = Counter()
        self._stays: dict[str, dict[str, set[str]]] = defaultdict(dict)
        self._opened: dict[str, float] = {}
        self._waiting: dict[str, tuple[str, int]] = {}
        self.stays: Counter[int] = Counter()
        """Half-open stays that found a dead server, by how many calls reached it under their leases."""
        self.opens = self.closes = self.freed = 0

    def published(
        self, record: dict[str, Any], known: dict[str, Any] | None, newest: dict[str, dict[str, Any]]
    ) -> None:
        """Check a circuit's newest record. ``known`` is the one before; ``newest`` has those of all circuits."""
        circuit_id = record["circuit_id"]
        waiting = self._waiting.pop(circuit_id, None)
        if record["scope"] != "family":
            if waiting is not None:
                self._freed(record, known, waiting)
            return
        state, rule = record["state"], record["cause"] and record["cause"]["rule"]
        server = self._simulation.by_name[record["tool_name"]]
        assert isinstance(server, SimulatedServer)
        self._count_leases(server, record)
        before = "closed" if known is None else known["state"]
        if before == state:
            return
        self.check(server)
        if state == "open" and before == "closed":
            self.opens += 1
            if rule != "command":  # that is not an outage
                self._opened[circuit_id] = instant(record["changed_at"])
        if before == "half_open" and rule == "probe_failed":
            self.stays[self._reached(server, known)] += 1
        if state == "closed":
            self.closes += 1
            opened = self._opened.pop(circuit_id, None)
            if rule == "probe_succeeded" and opened is not None:
                self._await(server, newest, opened - WINDOW_S, instant(record["changed_at"]))

    def began(self, tool: SimulatedTool, permit: Permit) -> None:
        """Count a call that begins under a lease of its server."""
        for of, lease_id in leases_of(tool, permit):
            if isinstance(of, SimulatedServer):
                self._probes[of.circuit_id, lease_id] += 1

    def _freed(self, record: dict[str, Any], known: dict[str, Any] | None, waiting: tuple[str, int]) -> None:
        """Check the first record of a tool after its server closed."""
        rule = record["cause"]["rule"]
        self.freed += rule == "family_recovered"
        lost_before = known is None or known["version"] + 1 < record["version"]  # a crash lost the one between
        if rule not in {"family_recovered", "command"} and not lost_before:
            what = f"its server answers since version {waiting[1]} of {waiting[0]}, and {rule} ended its own wait"
            raise self._histories.broken(NAME, record["circuit_id"], what)

    def check(self, server: SimulatedServer) -> None:
        """Check that the circuits of the tools were freed when their server last closed."""
        for tool in server.tools:
            waiting = self._waiting.pop(tool.circuit_id, None)
            if waiting is not None:
                what = f"its server answers since version {waiting[1]} of {waiting[0]}, and it still waits"
                raise self._histories.broken(NAME, tool.circuit_id, what)

    def _count_leases(self, server: SimulatedServer, record: dict[str, Any]) -> None:
        permitted = server.policy.permitted_number_of_calls_in_half_open_state
        for lease in record["leases"]:
            stay = self._stays[server.circuit_id].setdefault(str(record["generation"]), set())
            stay.add(lease["lease_id"])
            if len(stay) > permitted:
                what = f"{len(stay)} leases in one half-open stay, {permitted} permitted: {', '.join(sorted(stay))}"
                raise self._histories.broken(NAME, server.circuit_id, what)

    def _reached(self, server: SimulatedServer, known: dict[str, Any] | None) -> int:
        """Return how many calls reached the server under the leases of the stay that ended."""
        stay = set() if known is None else self._stays[server.circuit_id].get(str(known["generation"]), set())
        return sum(self._probes[server.circuit_id, lease] for lease in stay)

    def _await(self, server: SimulatedServer, newest: dict[str, dict[str, Any]], since: float, closed: float) -> None:
        for tool in server.tools:
            own = newest.get(tool.circuit_id)
            if own is None or own["state"] != "open" or own["cause"]["rule"] == "command":
                continue
            if instant(own["changed_at"]) >= since and own["open_until"] and instant(own["open_until"]) > closed:
                self._waiting[tool.circuit_id] = server.circuit_id, newest[server.circuit_id]["version"]

    def line(self) -> str:
        """Return the result in one line."""
        found = ", ".join(f"{stays} with {calls}" for calls, stays in sorted(self.stays.items())) or "none"
        return (
            f"{NAME}: held ({self.opens} opens and {self.closes} closes of servers; {self.freed} circuits of tools freed;"
            f" stays that found a dead server, by calls that reached it: {found})"
        )
