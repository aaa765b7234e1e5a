"""The circuits that decide about calls, and what they say while nobody takes anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from switchgear.breaker.states import PASSING
from switchgear.follower.view import CircuitView
from switchgear.guard.credentials import limit_of
from switchgear.guard.families import Family, family_finder
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit
from switchgear.guard.local_families import LocalFamilies
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear.guard.reporter import Reporter
from switchgear.tool_list import REFUSES, UP, Condition
from switchgear_schemas.circuit_ids import tool_circuit


class Circuits:
    """The circuits of tools and of their families: the fleet's, and this process's. Thread-safe."""

    def __init__(
        self, local: LocalBreakers, reporter: Reporter, *, of_session: bool = False, family_pattern: str = ""
    ) -> None:
        self.local = local
        self.reporter = reporter
        self.fleet = fleet = reporter.fleet
        self.clock = reporter.clock
        self.family_of = family_finder(family_pattern)
        self._credentials = reporter.credentials
        self._overdue = reporter.overdue
        self._of_session = of_session
        self._circuits = local.circuits
        self._views: Mapping[str, CircuitView] = {} if fleet is None else fleet.views
        self.families: LocalFamilies | None = None
        """The process's own circuits of families."""
        if family_pattern and not of_session:
            self.families = LocalFamilies(local, family_pattern, self.clock)
            if fleet is not None:
                fleet.on_family = self.families.on_fleet
        if reporter.hooks is not None and "on_transition" in reporter.hooks.wants:
            local.on_move = reporter.hooks.circuit_changed

    def refused_at_once(self, tool: str, circuit: LocalCircuit) -> Rejection | None:
        """Return, and report, a refusal that only the time decides. None: ask :meth:`acquire`.

        This process keeps one circuit of the tool. If the fleet keeps several, the answer is None.
        """
        view, fleet, now = self._views.get(tool_circuit(tool)), self.fleet, self.clock()
        if view is not None and (view.fallback or view.target is not None):
            return None
        if fleet is not None and tool in fleet.scoped:
            return None
        family, found = self.family_of(tool), None
        if family is not None:
            of_family = None if self.families is None else self.families.get(family)
            found = self._at_once(tool, self._views.get(family.circuit_id), of_family, now)
            if found is not None and view is not None and view.forced:  # that is named first
                return None
        if found is None:  # nothing stands between, where the fleet has no circuit of it
            found = circuit.refusal(tool, now, None) if view is None else self._at_once(tool, view, circuit, now)
        if not isinstance(found, Rejection):
            return None
        if fleet is not None:
            fleet.refusals.refused(found, now)
        return found

    def _at_once(
        self, tool: str, view: CircuitView | None, circuit: LocalCircuit | None, now: float
    ) -> Rejection | Literal["ask"] | None:
        """Return the refusal by a tool's or a family's circuits that only the time decides. None if they let the call through."""
        fleet = self.fleet
        if fleet is not None and view is not None:
            if not view.passes:
                return "ask" if view.leases or fleet.answer(view) != "refuse" else fleet.rejection(view, tool)
            if view.overrides:
                return None
        if circuit is None or circuit.breaker.quiet is not None:
            return None
        refusal = circuit.refusal(tool, now, None if view is None else view.generation)
        return "ask" if refusal is None and circuit.breaker.state not in PASSING else refusal

    def is_open(self, tool: str, caller: Caller = NO_CALLER) -> bool:
        """Return whether a call would be refused now. Takes nothing and asks no other process."""
        now, family = self.clock(), self.family_of(tool)
        self.reporter.overdue.look(now)
        view = None if self.fleet is None else self.fleet.view(tool, caller)
        of_family = "passes" if family is None else self._family_looks(family, now)
        if of_family == "refuses":
            return True
        if self._fleet_looks(view) == "refuses" and (of_family != "fleet_probe" or (view is not None and view.forced)):
            return True
        circuit = self.local.known(tool, caller)
        if circuit is None or (view is not None and view.overrides):
            return False
        probes = of_family != "passes"  # the family's probe passes an open circuit of the tool
        refuses = circuit.breaker.state == "forced_open" if probes else circuit.would_refuse(now)
        if refuses or not self._credentials.runs or limit_of(circuit) is None:
            return refuses
        return self._credentials.would_refuse(tool, None if family is None else family.name, caller, now)

    def condition(self, tool: str, caller: Caller = NO_CALLER) -> Condition:
        """Return what the circuits say of a tool, for a list that a model sees. Takes nothing and asks no other process."""
        if self.is_open(tool, caller):
            return REFUSES
        view, circuits = self._down(tool, caller)
        if view is None and not circuits:
            return UP
        return Condition(down=True, probe="due" if view is None or self.fleet is None else self.fleet.probe(view))

    def ask_ahead(self, tool: str, caller: Caller = NO_CALLER) -> bool:
        """Ask for a probe of a tool that is down, without a call and without waiting. Its lease comes with the circuit's record.

        Returns:
            Whether there is nobody to ask: this process may make the probe at once.
        """
        fleet, (view, _) = self.fleet, self._down(tool, caller)
        if fleet is None or view is None or not fleet.reachable(view):
            return True
        fleet.ask_ahead(view, tool, caller)
        return False

    def _down(self, tool: str, caller: Caller) -> tuple[CircuitView | None, list[LocalCircuit]]:
        """Return which of a tool's circuits are down: the fleet's that decides, and this process's."""
        family, fleet = self.family_of(tool), self.fleet
        family_view = None if family is None else self._views.get(family.circuit_id)
        view = None if fleet is None else fleet.view(tool, caller)
        circuits = [None if family is None else self._family_circuit(family, family_view)]
        if view is None or not view.overrides:
            circuits.append(self.local.known(tool, caller))
        down = (each for each in (family_view, view) if each is not None and not (each.passes or each.recovers))
        return next(down, None), [each for each in circuits if each is not None and each.breaker.state not in PASSING]

    def _family_looks(self, family: Family, now: float) -> Literal["passes", "refuses", "fleet_probe", "local_probe"]:
        """Return what the circuits of a family say about a call now."""
        view = self._views.get(family.circuit_id)
        said = self._fleet_looks(view)
        if said != "passes":
            return said
        circuit = self._family_circuit(family, view)
        if circuit is None or circuit.breaker.quiet is not None:
            return "passes"
        if circuit.would_refuse(now):
            return "refuses"
        return "passes" if circuit.breaker.state in PASSING else "local_probe"

    def _fleet_looks(self, view: CircuitView | None) -> Literal["passes", "refuses", "fleet_probe"]:
        """Return what a circuit of the fleet says about a call now."""
        fleet = self.fleet
        if fleet is None or view is None:
            return "passes"
        found = fleet.answer(view)
        if found == "refuse":
            return "refuses"
        return "passes" if found == "pass" or (found == "ask" and not fleet.reachable(view)) else "fleet_probe"

    def fleet_fallback(self, tool: str) -> tuple[str, ...]:
        """Return the fallback tools that the fleet's circuit names."""
        view = self._views.get(tool_circuit(tool))
        return () if view is None else view.fallback

    def target_rule(self, tool: str) -> str | None:
        """Return the ``target`` in force: the fleet's, so that all processes keep the same circuits, else that of the process's policy."""
        view = None if self.fleet is None else self._views.get(tool_circuit(tool))
        return self.local.target_rule(tool) if view is None or view.target is None else view.target

    def _family_circuit(self, family: Family, view: CircuitView | None) -> LocalCircuit | None:
        """Return this process's circuit of a family. None: it isn't asked, because of a session or of the fleet's ``view``."""
        if self.families is None or (view is not None and view.overrides):
            return None
        return self.families.get(family)
