"""The process's own circuits of families, the servers of its tools.

They open when several tools of a server fail in a row without an answer. When one closes, its tools' circuits may be probed at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from switchgear.breaker import Breaker, Transition
from switchgear.breaker.states import COUNTED_S, outage_began
from switchgear.guard.families import Family, family_finder
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit, LocalPolicies
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.cause import Cause
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.enums import CircuitState
from switchgear_schemas.plain_policy import LOCAL_FAMILIES, PlainPolicy, Policy

MAX_FAMILIES: Final = 1_000
"""The most circuits. Invented names can't make more: the calls of one more family pass uncounted by it."""


def family_policy_of(policies: LocalPolicies | None) -> Callable[[str], Policy]:
    """Return the function from a family to its policy: that of a policy set, else the default for all."""
    found: Callable[[str], Policy] | None = getattr(policies, "effective_family", None)
    return found or (lambda _family: LOCAL_FAMILIES)


class LocalFamilies:
    """The circuits by family, made when a tool of theirs is first called. Thread-safe.

    Args:
        tools: The process's circuits of tools.
        pattern: Which tools belong to a family.
        clock: Returns monotonic seconds.
    """

    def __init__(self, tools: LocalBreakers, pattern: str, clock: Callable[[], float]) -> None:
        self._tools = tools
        self._family_of = family_finder(pattern)
        self._policy_of = family_policy_of(tools.policies)
        self._clock = clock
        self._lock = threading.RLock()
        self._circuits: dict[str, LocalCircuit] = {}
        self._uncounted = LocalCircuit(Breaker("", PlainPolicy(mode="disabled"), 0.0))
        self._outages: dict[str, float] = {}
        """By circuit id, when the outage of an open family began."""
        self._fleet_outages: dict[str, float] = {}
        """The same for the fleet's circuits."""
        tools.on_new_tool = self._called
        call_in_child(self.forked)

    def get(self, family: Family) -> LocalCircuit:
        """Return the circuit of a family. If there are too many, it is one that lets all calls pass uncounted."""
        found = self._circuits.get(family.name)
        if found is not None:
            return found
        with self._lock:
            if family.name not in self._circuits and len(self._circuits) < MAX_FAMILIES:
                breaker = Breaker(family.circuit_id, self._policy_of(family.name), self._clock())
                breaker.on_move = self._moved
                quotes = self._tools.include_last_error
                self._circuits[family.name] = LocalCircuit(breaker, family.name, include_last_error=quotes)
            return self._circuits.get(family.name, self._uncounted)

    def on_fleet(self, name: str, passes: bool) -> None:
        """Follow the fleet's circuit of a family. When it closes after an outage, circuits that opened since then are probed at once."""
        circuit_id, now = id_of(name, "family"), self._clock()
        if not passes:
            self._fleet_outages.setdefault(circuit_id, now - COUNTED_S)
            return
        since = self._fleet_outages.pop(circuit_id, None)
        if since is not None:
            circuit = self._circuits.get(name)
            circuits = [] if circuit is None else [circuit]
            self._free([*circuits, *self._of_tools(circuit_id)], since, Cause("family_recovered", reason=name))

    def all_now(self) -> list[LocalCircuit]:
        """Return every circuit of this moment."""
        return list(self._circuits.values())

    def not_closed(self) -> dict[str, CircuitState]:
        """Return the state of every circuit that isn't closed, by circuit id."""
        found = [circuit.breaker for circuit in self.all_now()]
        return {breaker.circuit_id: breaker.state for breaker in found if breaker.state != "closed"}

    def forked(self) -> None:
        """In the child of a fork: the parent's threads, which hold locks and make probes, aren't here."""
        self._lock = threading.RLock()
        self._uncounted.reset_lock()
        for circuit in self.all_now():
            circuit.reset_lock()
            circuit.breaker.abandon_probes()

    def _called(self, tool: str) -> None:
        """Note a tool that is called for the first time: while it answers, another one that fails doesn't open the family."""
        family = self._family_of(tool)
        if family is not None:
            circuit = self.get(family)
            with circuit.lock:
                circuit.breaker.note_tools((tool,))

    def _moved(self, moved: Transition) -> None:
        """Follow a change of a family, whose lock is held."""
        if self._tools.on_move is not None:
            self._tools.on_move(moved)
        name = moved.circuit_id
        circuit = next(one for one in self.all_now() if one.breaker.circuit_id == name)
        if moved.state == "open":
            if moved.previous == "closed":
                self._outages[name] = outage_began(circuit.breaker.policy, moved.at)
            return
        circuit.breaker.note_tools(self._names(name))  # the change has cleared them
        since = self._outages.pop(name, None) if moved.state == "closed" else None
        if since is not None:
            self._free(self._of_tools(name), since, Cause("family_recovered", reason=circuit.family))

    def _names(self, circuit_id: str) -> list[str]:
        """Return the tools of a family that the process has called."""
        return [tool for tool in self._tools.names() if (of := self._family_of(tool)) and of.circuit_id == circuit_id]

    def _of_tools(self, circuit_id: str) -> list[LocalCircuit]:
        return [circuit for tool in self._names(circuit_id) for circuit in self._tools.of_tool(tool)]

    def _free(self, circuits: Iterable[LocalCircuit], since: float, cause: Cause) -> None:
        """Let circuits that opened after ``since`` be probed at once."""
        for circuit in circuits:
            with circuit.lock:
                if circuit.breaker.changed_at >= since:
                    circuit.breaker.end_wait_early(self._clock(), cause)
