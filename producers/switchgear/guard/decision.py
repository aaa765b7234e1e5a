"""The decision about a call: the fleet's circuit first, then the process's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from switchgear.breaker import BreakerPermit, BreakerRejection
from switchgear.breaker.ramp import in_words
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit
from switchgear.guard.permits import Permit, Reporter
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection, caller_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from switchgear_schemas.enums import Scope


@dataclass(frozen=True, slots=True)
class PendingProbe:
    """A probe was requested. ``answer`` is done when the fleet has answered."""

    view: CircuitView
    answer: Future[None]
    circuit: LocalCircuit
    breaker_permit: BreakerPermit
    caller: Caller


class CircuitDecision:
    """Decides about calls in memory. Thread-safe. Without a fleet it is a complete local circuit breaker."""

    def __init__(self, local: LocalBreakers, reporter: Reporter, *, of_session: bool = False) -> None:
        self.local = local
        self.reporter = reporter
        self.fleet = fleet = reporter.fleet
        self.clock = reporter.clock
        self._of_session = of_session
        self._circuits = local.circuits
        self._views: Mapping[str, CircuitView] = {} if fleet is None else fleet.views
        if reporter.hooks is not None and "on_transition" in reporter.hooks.wants:
            local.on_move = reporter.hooks.circuit_changed

    def acquire(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection | PendingProbe:
        """Decide. Wait for a PendingProbe's ``answer`` for as long as you like, then pass it to :meth:`after_answer`."""
        caller = caller_of(user_id, session_id, request_id) if user_id or session_id or request_id else NO_CALLER
        fleet = self.fleet
        view = self._views.get(tool)
        if fleet is not None and tool in fleet.scoped:
            view = fleet.view(tool, user_id, session_id)
        if fleet is None or view is None:
            return self._locally(tool, None, caller)
        if not view.passes:
            return self._not_closed(fleet, view, caller)
        if view.overrides:
            return Permit(self.reporter, tool, None, None, self.clock(), view.generation, caller)
        return self._locally(tool, view, caller)

    def after_answer(self, pending: PendingProbe) -> Permit | Rejection:
        """Return the answer to a requested probe: a lease, a closed circuit, or a refusal. Late answers count as none."""
        fleet = self.fleet
        assert fleet is not None  # it asked
        fleet.request_ended(pending.view.circuit_id)
        view = self._views.get(pending.view.circuit_id, pending.view)
        found = fleet.answer(view)
        lease = None
        if isinstance(found, LeaseView) and fleet.take_lease(view.circuit_id, found.lease_id):
            lease = (view.circuit_id, found.lease_id)
        elif found != "pass" or (view.recovers and not fleet.admits(view)):
            pending.circuit.release(pending.breaker_permit, self.clock())
            return fleet.rejection(view)
        return Permit(
            self.reporter,
            view.tool_name,
            pending.circuit,
            pending.breaker_permit,
            self.clock(),
            view.generation,
            pending.caller,
            lease,
        )

    def give_up(self, pending: PendingProbe) -> None:
        """Take back a request whose caller was cancelled while it waited."""
        assert self.fleet is not None
        self.fleet.request_ended(pending.view.circuit_id)
        pending.circuit.release(pending.breaker_permit, self.clock())

    def refused_at_once(self, tool: str, circuit: LocalCircuit) -> Rejection | None:
        """Return, and report, a refusal that only the time decides. None: ask :meth:`acquire`.

        All circuits of the tool, here and in the fleet, have the scope ``tool``.
        """
        view, fleet, now = self._views.get(tool), self.fleet, self.clock()
        if fleet is None or view is None:
            refusal = circuit.refusal(tool, now, None)
        elif view.fallback or view.overrides or view.leases or tool in fleet.scoped:
            return None
        elif view.passes:
            refusal = circuit.refusal(tool, now, view.generation)
        elif fleet.answer(view) != "refuse":
            return None
        else:
            refusal = fleet.rejection(view)
        if refusal is not None and fleet is not None:
            fleet.refusals.refused(refusal, now)
        return refusal

    def is_open(self, tool: str, user_id: str = "", session_id: str | None = None) -> bool:
        """Return whether a call would be refused now. Takes nothing and asks no other process."""
        fleet = self.fleet
        view = None if fleet is None else fleet.view(tool, user_id, session_id)
        if fleet is not None and view is not None:
            if not view.passes and fleet.answer(view) == "refuse":
                return True
            if view.overrides:
                return False
        circuit = self.local.known(tool, user_id, session_id)
        return circuit is not None and circuit.would_refuse(self.clock())

    def fleet_fallback(self, tool: str) -> tuple[str, ...]:
        """Return the fallback tools that the fleet's circuit names."""
        view = self._views.get(tool)
        return () if view is None else view.fallback

    def _not_closed(self, fleet: FleetCircuits, view: CircuitView, caller: Caller) -> Permit | Rejection | PendingProbe:
        """Decide where the fleet's circuit is open, forced open or half-open, or recovers."""
        if view.recovers:
            return self._locally(view.tool_name, view, caller) if fleet.admits(view) else fleet.rejection(view)
        found = fleet.answer(view)
        if found == "refuse":
            return fleet.rejection(view)
        if isinstance(found, LeaseView):  # one call of this process uses it; the others wait for its outcome
            if not fleet.take_lease(view.circuit_id, found.lease_id):
                return fleet.rejection(view)
            answer = self._locally(view.tool_name, view, caller, (view.circuit_id, found.lease_id))
            if isinstance(answer, Rejection):
                fleet.give_lease_back(view.circuit_id, found.lease_id)
            return answer
        if fleet.reachable(view):
            return self._request_probe(fleet, view, caller)
        return self._locally(view.tool_name, view, caller)

    def _locally(
        self, tool: str, view: CircuitView | None, caller: Caller, lease: tuple[str, str] | None = None
    ) -> Permit | Rejection:
        """Decide by the process's own circuit: the fleet lets the call through, or is out of reach."""
        now = self.clock()
        circuit = self._circuits.get(tool) or self.local.get(tool, caller[0], caller[1])
        breaker_permit = circuit.breaker.quiet
        if breaker_permit is None:
            answer = circuit.try_acquire(now)
            hooks = self.reporter.hooks
            if hooks is not None:  # an open circuit whose wait is over becomes half-open by being asked
                hooks.run_waiting()
            if isinstance(answer, BreakerRejection):
                return self._local_refusal(tool, answer, circuit, view)
            breaker_permit = answer
        generation = None if self.fleet is None else self.fleet.generation(view)
        return Permit(self.reporter, tool, circuit, breaker_permit, now, generation, caller, lease)

    def _request_probe(self, fleet: FleetCircuits, view: CircuitView, caller: Caller) -> PendingProbe | Rejection:
        """Ask the circuit's owner for a probe, if the process's own circuit lets the call through."""
        circuit = self.local.get(view.tool_name, caller[0], caller[1])
        now = self.clock()
        breaker_permit = circuit.try_acquire(now)
        if isinstance(breaker_permit, BreakerRejection):
            return self._local_refusal(view.tool_name, breaker_permit, circuit, view)
        refusal = fleet.rejection(view)
        answer = fleet.request_probe(view)
        if answer is None:
            circuit.release(breaker_permit, self.clock())
            return refusal
        fleet.refusals.refused(refusal, caller=caller, probe_requested=True)
        return PendingProbe(view, answer, circuit, breaker_permit, caller)

    def _local_refusal(
        self, tool: str, refused: BreakerRejection, circuit: LocalCircuit, view: CircuitView | None
    ) -> Rejection:
        reason, error = circuit.words()
        generation = None if view is None else view.generation
        scope: Scope = "tool" if refused.circuit_id == tool else circuit.breaker.policy.scope
        if self._of_session:
            scope = "session"
        state, wait, cause = refused.state, refused.retry_after_s, refused.cause
        if cause is not None and cause.rule == "recovery_ramp":
            reason = in_words(cause.value or 1.0)
        return Rejection(tool, state, "local", reason, wait, error, None, generation, scope, cause)
