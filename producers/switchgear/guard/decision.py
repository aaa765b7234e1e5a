"""The decision about a call: first the circuits of the tool's family, then the tool's. Of each the fleet's, then this process's.

Last comes the caller's credential: an open circuit is named first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from switchgear.breaker import BreakerPermit, BreakerRejection
from switchgear.breaker.ramp import in_words
from switchgear.breaker.states import PASSING
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard.credentials import Held, limit_of
from switchgear.guard.families import Family, FamilyPermit, family_finder
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit
from switchgear.guard.local_families import LocalFamilies
from switchgear.guard.permits import Permit, Reporter
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear_schemas.circuit_ids import tool_circuit

if TYPE_CHECKING:
    from concurrent.futures import Future

    from switchgear_schemas.enums import CircuitScope


@dataclass(frozen=True, slots=True)
class PendingProbe:
    """A probe of a tool or of its family was requested. ``answer`` is done when the fleet has answered."""

    tool: str
    view: CircuitView
    """The circuit that was asked."""
    answer: Future[None]
    caller: Caller
    circuit: LocalCircuit | None = None
    """This process's circuit of the tool; None if the family is asked."""
    breaker_permit: BreakerPermit | None = None
    family: FamilyPermit | None = None
    held: Held | None = None


class CircuitDecision:
    """Decides about calls in memory. Thread-safe. Without a fleet it is a complete local circuit breaker.

    A session's decision has no circuits of families of its own.
    """

    def __init__(
        self, local: LocalBreakers, reporter: Reporter, *, of_session: bool = False, family_pattern: str = ""
    ) -> None:
        self.local = local
        self.reporter = reporter
        self.fleet = fleet = reporter.fleet
        self.clock = reporter.clock
        self.family_of = family_finder(family_pattern)
        self._credentials = reporter.credentials
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

    def acquire(self, tool: str, caller: Caller = NO_CALLER) -> Permit | Rejection | PendingProbe:
        """Decide. Wait for a PendingProbe's ``answer`` for as long as you like, then pass it to :meth:`after_answer`."""
        fleet = self.fleet
        view = None
        if fleet is not None:
            view = self._views.get(tool_circuit(tool))
            if caller.target or tool in fleet.scoped:
                view = fleet.view(tool, caller)
        found, family = self.family_of(tool), None
        if found is not None:
            of_family = self._of_family(found, tool, view, caller)
            if not isinstance(of_family, FamilyPermit):
                return of_family
            family = of_family
        answer: Permit | Rejection | PendingProbe
        if fleet is None or view is None:
            answer = self._locally(tool, None, caller, family)
        elif not view.passes:
            answer = self._not_closed(fleet, view, caller, family)
        elif view.overrides:
            permit = Permit(self.reporter, tool, None, None, self.clock(), view.generation, caller, family=family)
            return self._watch(permit, view)
        else:
            answer = self._locally(tool, view, caller, family)
        if family is not None and isinstance(answer, Rejection):
            family.release(self.clock())
        return answer

    def after_answer(self, pending: PendingProbe) -> Permit | Rejection:
        """Return the answer to a requested probe: a lease, a closed circuit, or a refusal. Late answers count as none."""
        fleet = self.fleet
        assert fleet is not None  # it asked
        fleet.request_ended(pending.view.circuit_id)
        view = self._views.get(pending.view.circuit_id, pending.view)
        if view.scope == "family":
            return self._after_family_answer(fleet, view, pending)
        found = fleet.answer(view)
        lease = None
        if isinstance(found, LeaseView) and fleet.take_lease(view.circuit_id, found.lease_id):
            lease = (view.circuit_id, found.lease_id)
        elif found != "pass" or (view.recovers and not fleet.admits(view)):
            self._release(pending)
            return fleet.rejection(view)
        permit = Permit(
            self.reporter,
            view.tool_name,
            pending.circuit,
            pending.breaker_permit,
            self.clock(),
            view.generation,
            pending.caller,
            lease,
            family=pending.family,
            held=pending.held,
        )
        return self._watch(permit, view)

    def give_up(self, pending: PendingProbe) -> None:
        """Take back a request whose caller was cancelled while it waited."""
        assert self.fleet is not None
        self.fleet.request_ended(pending.view.circuit_id)
        self._release(pending)

    def refused_at_once(self, tool: str, circuit: LocalCircuit) -> Rejection | None:
        """Return, and report, a refusal that only the time decides. None: ask :meth:`acquire`.

        This process keeps one circuit of the tool. If the fleet keeps several, the answer is None.
        """
        view, fleet, now = self._views.get(tool_circuit(tool)), self.fleet, self.clock()
        if view is not None and (view.fallback or view.overrides or view.leases or view.target is not None):
            return None
        if fleet is not None and tool in fleet.scoped:
            return None
        family = self.family_of(tool)
        refusal = None if family is None else self._family_refused_at_once(family, tool, view, now)
        if refusal == "ask":
            return None
        if refusal is None:
            if fleet is None or view is None:
                refusal = circuit.refusal(tool, now, None)
            elif view.passes:
                refusal = circuit.refusal(tool, now, view.generation)
            elif fleet.answer(view) != "refuse":
                return None
            else:
                refusal = fleet.rejection(view)
        if refusal is not None and fleet is not None:
            fleet.refusals.refused(refusal, now)
        return refusal

    def _family_refused_at_once(
        self, family: Family, tool: str, view: CircuitView | None, now: float
    ) -> Rejection | Literal["ask"] | None:
        """Return the family's refusal that only the time decides; None if it lets the call through."""
        fleet, family_view = self.fleet, self._views.get(family.circuit_id)
        if fleet is not None and family_view is not None:
            if not family_view.passes:
                if (view is not None and view.forced) or family_view.leases or fleet.answer(family_view) != "refuse":
                    return "ask"
                return fleet.rejection(family_view, tool)
            if family_view.overrides:
                return None
        circuit = None if self.families is None else self.families.get(family)
        if circuit is None or circuit.breaker.quiet is not None:
            return None
        refusal = circuit.refusal(tool, now, None if family_view is None else family_view.generation)
        return refusal or (None if circuit.breaker.state in PASSING else "ask")

    def is_open(self, tool: str, caller: Caller = NO_CALLER) -> bool:
        """Return whether a call would be refused now. Takes nothing and asks no other process."""
        fleet = self.fleet
        self.reporter.overdue.look(self.clock())
        view = None if fleet is None else fleet.view(tool, caller)
        family = self.family_of(tool)
        of_family = "passes" if family is None else self._family_is_open(family)
        if of_family == "refuses":
            return True
        if fleet is not None and view is not None:
            if not view.passes and (view.forced or of_family != "fleet_probe") and fleet.answer(view) == "refuse":
                return True
            if view.overrides:
                return False
        circuit = self.local.known(tool, caller)
        if circuit is None:
            return False
        now = self.clock()
        if of_family in ("fleet_probe", "local_probe"):  # the family's probe passes an open circuit of the tool
            refuses = circuit.breaker.state == "forced_open"
        else:
            refuses = circuit.would_refuse(now)
        if refuses or not self._credentials.runs or limit_of(circuit) is None:
            return refuses
        return self._credentials.would_refuse(tool, None if family is None else family.name, caller, now)

    def fleet_fallback(self, tool: str) -> tuple[str, ...]:
        """Return the fallback tools that the fleet's circuit names."""
        view = self._views.get(tool_circuit(tool))
        return () if view is None else view.fallback

    def target_rule(self, tool: str) -> str | None:
        """Return the ``target`` in force: the fleet's, so that all processes keep the same circuits, else that of the process's policy."""
        view = None if self.fleet is None else self._views.get(tool_circuit(tool))
        return self.local.target_rule(tool) if view is None or view.target is None else view.target

    # -- the family ---------------------------------------------------------------------------------------------------

    def _of_family(  # noqa: PLR0911 - one return per answer
        self, family: Family, tool: str, view: CircuitView | None, caller: Caller
    ) -> FamilyPermit | Permit | Rejection | PendingProbe:
        """Decide for the tool's family. A probe of the fleet's circuit is decided for good: it passes the tool's circuit."""
        fleet, family_view = self.fleet, self._views.get(family.circuit_id)
        if fleet is None or family_view is None:
            return self._family_locally(family, tool, None)
        if family_view.passes:
            if family_view.overrides:
                return _family_permit(family, None, None, family_view.generation, family_view)
            return self._family_locally(family, tool, family_view)
        if view is not None and view.forced and fleet.answer(view) == "refuse":
            return fleet.rejection(view)
        if family_view.recovers:
            admitted = fleet.admits(family_view)
            return self._family_locally(family, tool, family_view) if admitted else fleet.rejection(family_view, tool)
        found = fleet.answer(family_view)
        if found == "refuse":
            return fleet.rejection(family_view, tool)
        if isinstance(found, LeaseView):
            return self._probe_family(fleet, family_view, found, tool, view, caller)
        if not fleet.reachable(family_view):
            return self._family_locally(family, tool, family_view)
        refusal = fleet.rejection(family_view, tool)
        answer = fleet.request_probe(family_view)
        if answer is None:
            return refusal
        fleet.refusals.refused(refusal, caller=caller, probe_requested=True)
        return PendingProbe(tool, family_view, answer, caller)

    def _family_locally(self, family: Family, tool: str, view: CircuitView | None) -> FamilyPermit | Rejection:
        """Decide by the process's own circuit of the family."""
        generation = None if self.fleet is None else self.fleet.generation(view)
        circuit = None if self.families is None else self.families.get(family)
        if circuit is None:
            return _family_permit(family, None, None, generation, view)
        quiet = circuit.breaker.quiet
        answer = quiet or self._asked(circuit, self.clock())
        if isinstance(answer, BreakerRejection):
            return self._local_refusal(tool, answer, circuit, view)
        if quiet is not None and (view is None or view.plain):
            return FamilyPermit(family.name, circuit, quiet, generation)
        return _family_permit(family, circuit, answer, generation, view)

    def _probe_family(
        self,
        fleet: FleetCircuits,
        family_view: CircuitView,
        lease: LeaseView,
        tool: str,
        view: CircuitView | None,
        caller: Caller,
    ) -> Permit | Rejection:
        """Use a lease for a call, although circuits of the tool and of this process may be open."""
        if not fleet.take_lease(family_view.circuit_id, lease.lease_id):
            return fleet.rejection(family_view, tool)
        now = self.clock()
        family = Family(family_view.tool_name, family_view.circuit_id)
        family_circuit = None if self.families is None else self.families.get(family)
        own = None if family_circuit is None else self._asked(family_circuit, now)
        permit = _family_permit(
            family,
            family_circuit,
            None if isinstance(own, BreakerRejection) else own,
            family_view.generation,
            family_view,
            (family_view.circuit_id, lease.lease_id),
        )
        if view is not None and view.overrides:
            whole = Permit(self.reporter, tool, None, None, now, view.generation, caller, family=permit)
            return self._watch(whole, view)
        answer = self._locally(tool, view, caller, permit)
        if isinstance(answer, Rejection):
            permit.release(now)
            fleet.give_lease_back(family_view.circuit_id, lease.lease_id)
        return answer

    def _after_family_answer(
        self, fleet: FleetCircuits, family_view: CircuitView, pending: PendingProbe
    ) -> Permit | Rejection:
        tool, caller = pending.tool, pending.caller
        found = fleet.answer(family_view)
        if isinstance(found, LeaseView):
            view = fleet.view(tool, caller)
            return self._probe_family(fleet, family_view, found, tool, view, caller)
        if found != "pass":
            return fleet.rejection(family_view, tool)
        answer = self.acquire(tool, caller)
        if isinstance(answer, PendingProbe):  # by the tool's own circuit: the next call finds the answer
            self.give_up(answer)
            return fleet.rejection(answer.view)
        return answer

    def _family_is_open(self, family: Family) -> Literal["passes", "refuses", "fleet_probe", "local_probe"]:
        """Return what the circuits of a family say about a call now."""
        fleet, view = self.fleet, self._views.get(family.circuit_id)
        if fleet is not None and view is not None:
            if not view.passes and not view.recovers:
                found = fleet.answer(view)
                if found == "refuse":
                    return "refuses"
                if found != "ask" or fleet.reachable(view):
                    return "fleet_probe"
            if view.overrides:
                return "passes"
        circuit = None if self.families is None else self.families.get(family)
        if circuit is None or circuit.breaker.quiet is not None:
            return "passes"
        if circuit.would_refuse(self.clock()):
            return "refuses"
        return "passes" if circuit.breaker.state in PASSING else "local_probe"

    # -- the tool -----------------------------------------------------------------------------------------------------

    def _not_closed(
        self, fleet: FleetCircuits, view: CircuitView, caller: Caller, family: FamilyPermit | None
    ) -> Permit | Rejection | PendingProbe:
        """Decide where the fleet's circuit is open, forced open or half-open, or recovers."""
        if view.recovers:
            return self._locally(view.tool_name, view, caller, family) if fleet.admits(view) else fleet.rejection(view)
        found = fleet.answer(view)
        if found == "refuse":
            return fleet.rejection(view)
        if isinstance(found, LeaseView):  # one call of this process uses it; the others wait for its outcome
            if not fleet.take_lease(view.circuit_id, found.lease_id):
                return fleet.rejection(view)
            answer = self._locally(view.tool_name, view, caller, family, (view.circuit_id, found.lease_id))
            if isinstance(answer, Rejection):
                fleet.give_lease_back(view.circuit_id, found.lease_id)
            return answer
        if fleet.reachable(view):
            return self._request_probe(fleet, view, caller, family)
        return self._locally(view.tool_name, view, caller, family)

    def _locally(
        self,
        tool: str,
        view: CircuitView | None,
        caller: Caller,
        family: FamilyPermit | None,
        lease: tuple[str, str] | None = None,
    ) -> Permit | Rejection:
        """Decide by the process's own circuit: the fleet lets the call through, or is out of reach."""
        now = self.clock()
        circuit = (None if caller.target else self._circuits.get(tool)) or self.local.get(tool, caller)
        quiet = breaker_permit = circuit.breaker.quiet
        if breaker_permit is None:
            answer = self._asked(circuit, now)
            if not isinstance(answer, BreakerRejection):
                breaker_permit = answer
            elif not _passes_open(answer, family):
                return self._local_refusal(tool, answer, circuit, view)
        held = self._admitted(tool, circuit, caller, family) if self._credentials.runs else None
        if isinstance(held, Rejection):
            if breaker_permit is not None:
                circuit.release(breaker_permit, now)
            return held
        generation = None if self.fleet is None else self.fleet.generation(view)
        permit = Permit(self.reporter, tool, circuit, breaker_permit, now, generation, caller, lease, family=family)
        if held is not None:
            permit.held = held
        if quiet is None or (view is not None and not view.plain) or (family is not None and family.watched):
            self._watch(permit, view)
        return permit

    def _watch(self, permit: Permit, view: CircuitView | None) -> Permit:
        """Have its circuits told if the call is overdue. Return its permit."""
        family, fleet_ms = permit.family, _limit_ms(view)
        if family is None:
            self.reporter.overdue.begin(permit, permit.circuit, fleet_ms=fleet_ms)
        else:
            fleet_ms = min(fleet_ms, family.fleet_ms)
            self.reporter.overdue.begin(permit, permit.circuit, family.circuit, fleet_ms=fleet_ms)
        return permit

    def _admitted(
        self, tool: str, circuit: LocalCircuit, caller: Caller, family: FamilyPermit | None
    ) -> Held | Rejection | None:
        """Ask about the caller's credential, which the tool or its server may have rejected."""
        if not self._credentials.runs or limit_of(circuit) is None:
            return None
        return self._credentials.admit(tool, None if family is None else family.name, caller, self.clock())

    def _request_probe(
        self, fleet: FleetCircuits, view: CircuitView, caller: Caller, family: FamilyPermit | None
    ) -> PendingProbe | Rejection:
        """Ask the circuit's owner for a probe, if the process's own circuit lets the call through."""
        circuit = self.local.get(view.tool_name, caller)
        now = self.clock()
        answer = self._asked(circuit, now)
        breaker_permit = None
        if not isinstance(answer, BreakerRejection):
            breaker_permit = answer
        elif not _passes_open(answer, family):
            return self._local_refusal(view.tool_name, answer, circuit, view)
        held = self._admitted(view.tool_name, circuit, caller, family)
        refusal = held if isinstance(held, Rejection) else fleet.rejection(view)
        asked = None if isinstance(held, Rejection) else fleet.request_probe(view)
        if asked is None or isinstance(held, Rejection):
            if breaker_permit is not None:
                circuit.release(breaker_permit, self.clock())
            if isinstance(held, Held):
                self._credentials.give_back(held, self.clock())
            return refusal
        fleet.refusals.refused(refusal, caller=caller, probe_requested=True)
        return PendingProbe(view.tool_name, view, asked, caller, circuit, breaker_permit, family, held)

    def _asked(self, circuit: LocalCircuit, now: float) -> BreakerPermit | BreakerRejection:
        """Ask a circuit of this process."""
        quiet = circuit.breaker.quiet
        if quiet is not None:
            return quiet
        self.reporter.overdue.look(now)  # calls under way may open it
        answer = circuit.try_acquire(now)
        hooks = self.reporter.hooks
        if hooks is not None:  # an open circuit whose wait is over becomes half-open by being asked
            hooks.run_waiting()
        return answer

    def _release(self, pending: PendingProbe) -> None:
        """Give back what a call holds that waited for an answer."""
        now = self.clock()
        if pending.circuit is not None and pending.breaker_permit is not None:
            pending.circuit.release(pending.breaker_permit, now)
        if pending.family is not None:
            pending.family.release(now)
        if pending.held is not None:
            self._credentials.give_back(pending.held, now)

    def _local_refusal(
        self, tool: str, refused: BreakerRejection, circuit: LocalCircuit, view: CircuitView | None
    ) -> Rejection:
        reason, error = circuit.words()
        generation = None if view is None else view.generation
        scope: CircuitScope = "session" if self._of_session else circuit.scope
        family = circuit.family
        state, wait, cause = refused.state, refused.retry_after_s, refused.cause
        if cause is not None and cause.rule == "recovery_ramp":
            reason = in_words(cause.value or 1.0, cause.reason)
        return Rejection(
            tool,
            state,
            "local",
            reason,
            wait,
            error,
            None,
            generation,
            scope,
            cause,
            family,
            target=circuit.target,
            last_error_class=circuit.last_error_class,
            include_last_error=circuit.include_last_error,
        )


def _family_permit(
    family: Family,
    circuit: LocalCircuit | None,
    permit: BreakerPermit | None,
    generation: int | None,
    view: CircuitView | None,
    lease: tuple[str, str] | None = None,
) -> FamilyPermit:
    """Return the family's part of a permit, with after how long the call is overdue for the family."""
    fleet_ms = _limit_ms(view)
    watched = circuit is not None or fleet_ms < math.inf
    return FamilyPermit(family.name, circuit, permit, generation, lease, watched, fleet_ms)


def _limit_ms(view: CircuitView | None) -> float:
    """Return after how many milliseconds a call is overdue by the fleet's record. Infinite if that says nothing."""
    return math.inf if view is None or view.overdue_after_ms is None else view.overdue_after_ms


def _passes_open(refused: BreakerRejection, family: FamilyPermit | None) -> bool:
    """Return whether the call goes although the process's circuit of the tool refuses: as the probe of the tool's family."""
    return family is not None and family.probe and refused.state != "forced_open"
