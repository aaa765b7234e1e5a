"""The decision about a call: first the circuits of the tool's family, then the tool's. Of each the fleet's, then this process's.

Last comes the caller's credential: an open circuit is named first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from switchgear.breaker import BreakerPermit, BreakerRejection
from switchgear.breaker.ramp import in_words
from switchgear.follower.view import CircuitView
from switchgear.guard.attempts import Attempt, Pending, PendingProbe, PendingTurn
from switchgear.guard.circuits import Circuits
from switchgear.guard.credentials import limit_of
from switchgear.guard.families import Family, FamilyPermit
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear.guard.reporter import Reporter
from switchgear.guard.turns import refusal_of
from switchgear_schemas.circuit_ids import tool_circuit

Decider = Callable[[Attempt], Rejection | Pending | None]
"""Takes what a call needs of one circuit, and notes it in the attempt. Returns why the call doesn't go; None: ask the next decider."""


class CircuitDecision(Circuits):
    """Decides about calls in memory. Thread-safe. Without a fleet it is a complete local circuit breaker.

    A session's decision has no circuits of families of its own.
    """

    def __init__(
        self, local: LocalBreakers, reporter: Reporter, *, of_session: bool = False, family_pattern: str = ""
    ) -> None:
        super().__init__(local, reporter, of_session=of_session, family_pattern=family_pattern)
        self._deciders: Sequence[Decider] = (
            self._fleet_of_family,
            self._own_family,
            self._fleet_of_tool,
            self._own_tool,
            self._credential,
            self._owner,
            self._turn,
        )
        if self.fleet is not None:
            self.fleet.turns.by_credential = reporter.credentials.shared
        if self.fleet is None:
            self._deciders = (self._own_family, self._own_tool, self._credential)
        self._of_tool = self._deciders[self._deciders.index(self._own_family) + 1 :]
        """Those of a tool without a family."""

    def acquire(self, tool: str, caller: Caller = NO_CALLER) -> Permit | Rejection | Pending:
        """Decide. Wait for the ``answer`` of what is pending for as long as you like, then pass it to :meth:`after_answer`."""
        fleet, family = self.fleet, self.family_of(tool)
        view = None if fleet is None else fleet.view(tool, caller)
        family_view = None if family is None else self._views.get(family.circuit_id)
        paced = fleet is not None and tool in fleet.paced
        circuit = None if caller.target or paced or self._credentials.runs else self._circuits.get(tool)
        if circuit is not None:  # most calls: nothing counts them
            quiet = circuit.breaker.quiet
            if quiet is not None and (view is None or view.plain) and (family_view is None or family_view.plain):
                generation = None if fleet is None else fleet.generation(view)
                if family is None:
                    return Permit(self.reporter, tool, circuit, quiet, self.clock(), generation, caller)
                of_family = self._quiet_family(family, family_view)
                if of_family is not None:
                    now = self.clock()
                    return Permit(self.reporter, tool, circuit, quiet, now, generation, caller, family=of_family)
        deciders = self._of_tool if family is None else self._deciders
        return self._decide(Attempt(tool, caller, family, view, family_view), deciders)

    def after_answer(self, pending: Pending) -> Permit | Rejection | Pending:
        """Return the answer to a requested probe: a lease, a closed circuit, or a refusal. Late answers count as none.

        Of a call that waits for its turn, return the permit or the refusal if it need not wait any more.
        """
        fleet, attempt = self.fleet, pending.attempt
        assert fleet is not None  # it asked
        if isinstance(pending, PendingTurn):
            return self._after_wait(attempt)
        fleet.request_ended(pending.view.circuit_id)
        view = self._views.get(pending.view.circuit_id, pending.view)
        answer: Permit | Rejection | Pending
        if view.scope == "family" and fleet.answer(view) == "pass":
            answer = self.acquire(attempt.tool, attempt.caller)
        else:
            said = fleet.decide(view, attempt.tool)
            if said == "ask":
                said = fleet.rejection(view, attempt.tool)
            if isinstance(said, Rejection):
                self._give_back(attempt)
                return said
            if view.scope != "family":
                attempt.view, attempt.lease = view, None if said == "pass" else said
                return self._permit(attempt)
            attempt.family_view, attempt.family_lease = view, None if said == "pass" else said
            attempt.view = fleet.view(attempt.tool, attempt.caller)
            answer = self._decide(attempt, self._deciders[1:])
        if isinstance(answer, PendingProbe):  # by the tool's own circuit: the next call finds the answer
            self.give_up(answer)
            return fleet.rejection(answer.view)
        return answer

    def give_up(self, pending: Pending) -> None:
        """Take back what a caller waited for who was cancelled."""
        fleet, turn = self.fleet, pending.attempt.turn
        assert fleet is not None  # it made the caller wait
        if isinstance(pending, PendingProbe):
            fleet.request_ended(pending.view.circuit_id)
        self._give_back(pending.attempt)
        if turn is not None:
            fleet.turns.cancelled(turn)

    # -- the deciders, in their order ---------------------------------------------------------------------------------

    def _decide(self, attempt: Attempt, deciders: Sequence[Decider]) -> Permit | Rejection | Pending:
        for decide in deciders:
            answer = decide(attempt)
            if answer is not None:
                if isinstance(answer, Rejection):
                    self._give_back(attempt)
                return answer
        return self._permit(attempt)

    def _fleet_of_family(self, attempt: Attempt) -> Rejection | PendingProbe | None:
        """Ask the fleet's circuit of the family. A probe of it passes the tool's circuit, unless that is forced open."""
        fleet, view, of_tool = self.fleet, attempt.family_view, attempt.view
        if fleet is None or view is None or view.passes:
            return None
        if of_tool is not None and of_tool.forced and fleet.answer(of_tool) == "refuse":
            return fleet.rejection(of_tool)
        said = fleet.decide(view, attempt.tool)
        if said == "ask":
            return self._request(attempt, view) if fleet.reachable(view) else None
        if isinstance(said, Rejection):
            return said
        if said != "pass":
            attempt.family_lease = said
        return None

    def _own_family(self, attempt: Attempt) -> Rejection | None:
        """Ask this process's circuit of the family. A probe of the fleet's goes although it refuses."""
        family, view = attempt.family, attempt.family_view
        assert family is not None
        circuit = self._family_circuit(family, view)
        permit = None
        if circuit is not None:
            answer = self._asked(circuit)
            if not isinstance(answer, BreakerRejection):
                permit = answer
            elif attempt.family_lease is None:
                return self._local_refusal(attempt.tool, answer, circuit, view)
        generation = None if self.fleet is None else self.fleet.generation(view)
        attempt.of_family = FamilyPermit(family.name, circuit, permit, generation, attempt.family_lease)
        return None

    def _fleet_of_tool(self, attempt: Attempt) -> Rejection | None:
        """Ask the fleet's circuit of the tool. A probe of its family goes although it refuses."""
        fleet, view = self.fleet, attempt.view
        if fleet is None or view is None or view.passes or attempt.family_lease is not None:
            return None
        said = fleet.decide(view, attempt.tool)
        if isinstance(said, Rejection):
            return said
        if said == "ask":
            attempt.probes = view if fleet.reachable(view) else None
        elif said != "pass":
            attempt.lease = said
        return None

    def _own_tool(self, attempt: Attempt) -> Rejection | None:
        """Ask this process's circuit of the tool. A probe of its family goes although it refuses, unless it is forced open."""
        tool, view = attempt.tool, attempt.view
        if view is not None and view.overrides:
            return None
        circuit = attempt.circuit = self.local.get(tool, attempt.caller)
        answer = self._asked(circuit)
        if not isinstance(answer, BreakerRejection):
            attempt.breaker_permit = answer
            return None
        family = attempt.of_family
        if family is not None and family.probe and answer.state != "forced_open":
            return None
        return self._local_refusal(tool, answer, circuit, view)

    def _credential(self, attempt: Attempt) -> Rejection | None:
        """Ask about the caller's credential, which the tool or its server may have rejected."""
        circuit, family = attempt.circuit, attempt.family
        if not self._credentials.runs or circuit is None or limit_of(circuit) is None:
            return None
        name = None if family is None else family.name
        answer = self._credentials.admit(attempt.tool, name, attempt.caller, self.clock())
        if isinstance(answer, Rejection):
            return answer
        attempt.held = answer
        return None

    def _owner(self, attempt: Attempt) -> Rejection | Pending | None:
        """Ask the owner of the fleet's circuit of the tool for a probe."""
        return None if attempt.probes is None else self._request(attempt, attempt.probes)

    def _turn(self, attempt: Attempt) -> Rejection | Pending | None:
        """Ask for the call's turn, if the fleet keeps a limit of the tool. Probes need none."""
        fleet = self.fleet
        assert fleet is not None  # else nobody asks
        if attempt.tool not in fleet.paced or attempt.lease is not None or attempt.family_lease is not None:
            return None
        view = self._views.get(tool_circuit(attempt.tool))
        if view is None or not view.keeps_pace:
            return None
        turn = attempt.turn = fleet.turns.ask(view, attempt.caller)
        if turn.wait_s == 0:
            return None
        refusal = refusal_of(view, turn)
        if fleet.turns.may_wait(turn, view) <= 0:
            fleet.turns.refused(turn)
            return refusal
        fleet.refusals.refused(refusal, caller=attempt.caller, waits=True)
        return self._waiting(attempt, view)

    def _after_wait(self, attempt: Attempt) -> Permit | Rejection | Pending:
        """Return the permit of a call whose turn has come, unless a circuit refuses it by now. Else let it wait on, or refuse it."""
        fleet, turn = self.fleet, attempt.turn
        assert fleet is not None  # it waited for a turn
        assert turn is not None
        view = self._views.get(tool_circuit(attempt.tool))
        family = None if attempt.family is None else self._views.get(attempt.family.circuit_id)
        for refusing in (family, fleet.view(attempt.tool, attempt.caller)):
            if refusing is not None and not (refusing.passes or refusing.recovers):
                self._give_back(attempt)
                return fleet.rejection(refusing, attempt.tool)
        if view is None or fleet.turns.look(turn, view) == 0:
            fleet.turns.waited(turn)
            return self._permit(attempt)
        if fleet.turns.may_wait(turn, view) > 0:
            return self._waiting(attempt, view)
        return self.end_wait(attempt, view)

    def end_wait(self, attempt: Attempt, view: CircuitView) -> Rejection:
        """Refuse a call that waits for its turn."""
        turn = attempt.turn
        assert turn is not None  # it waits for it
        assert self.fleet is not None  # which knows the limit
        self.fleet.turns.waited(turn)
        self.fleet.turns.refused(turn)
        self._give_back(attempt)
        return refusal_of(view, turn)

    def _waiting(self, attempt: Attempt, view: CircuitView) -> PendingTurn:
        fleet, turn = self.fleet, attempt.turn
        assert fleet is not None  # it knows the limit
        assert turn is not None
        wait_s = min(turn.wait_s, fleet.turns.may_wait(turn, view))
        return PendingTurn(attempt, view, fleet.turns.waiter(turn), wait_s)

    def _permit(self, attempt: Attempt) -> Permit:
        """Return the permit of a call that no decider refuses. Have its circuits told if it is overdue."""
        fleet, family, circuit = self.fleet, attempt.of_family, attempt.circuit
        permit = Permit(
            self.reporter,
            attempt.tool,
            circuit,
            attempt.breaker_permit,
            self.clock(),
            None if fleet is None else fleet.generation(attempt.view),
            attempt.caller,
            attempt.lease,
            family=family,
            held=attempt.held,
            turn=attempt.turn,
        )
        fleet_ms = min(_limit_ms(attempt.view), _limit_ms(attempt.family_view))
        of_family = None if family is None else family.circuit
        self.reporter.overdue.begin(permit, circuit, of_family, fleet_ms=fleet_ms)
        return permit

    def _request(self, attempt: Attempt, view: CircuitView) -> PendingProbe | Rejection:
        """Ask the owner of a circuit for a probe."""
        fleet = self.fleet
        assert fleet is not None  # it has the view
        refusal = fleet.rejection(view, attempt.tool)
        answer = fleet.request_probe(view)
        if answer is None:
            return refusal
        fleet.refusals.refused(refusal, caller=attempt.caller, probe_requested=True)
        return PendingProbe(attempt, view, answer)

    def _asked(self, circuit: LocalCircuit) -> BreakerPermit | BreakerRejection:
        """Ask a circuit of this process."""
        quiet = circuit.breaker.quiet
        if quiet is not None:
            return quiet
        now = self.clock()
        if now >= self._overdue.next_due:  # calls under way may open it
            self._overdue.look(now)
        answer = circuit.try_acquire(now)
        hooks = self.reporter.hooks
        if hooks is not None:  # an open circuit whose wait is over becomes half-open by being asked
            hooks.run_waiting()
        return answer

    def _quiet_family(self, family: Family, view: CircuitView | None) -> FamilyPermit | None:
        """Return what a call holds of a family whose circuits count nothing now. None: they have to be asked."""
        generation = None if self.fleet is None else self.fleet.generation(view)
        circuit = self._family_circuit(family, view)
        quiet = None if circuit is None else circuit.breaker.quiet
        if circuit is not None and quiet is None:
            return None
        return FamilyPermit(family.name, circuit, quiet, generation)

    def _give_back(self, attempt: Attempt) -> None:
        """Give back what a call holds that isn't made. A lease of its family is part of what it holds of that."""
        self.reporter.give_back(
            attempt.circuit, attempt.breaker_permit, attempt.of_family, attempt.lease, attempt.held, attempt.turn
        )

    def _local_refusal(
        self, tool: str, refused: BreakerRejection, circuit: LocalCircuit, view: CircuitView | None
    ) -> Rejection:
        reason, error = circuit.words()
        cause = refused.cause
        if cause is not None and cause.rule == "recovery_ramp":
            reason = in_words(cause.value or 1.0, cause.reason)
        return Rejection(  # by position: with so many names CPython passes them in a dict, which takes longer
            tool,
            refused.state,
            "local",
            reason,
            refused.retry_after_s,
            error,
            None,
            None if view is None else view.generation,
            "session" if self._of_session else circuit.scope,
            cause,
            circuit.family,
            0,
            circuit.target,
            circuit.last_error_class,
            circuit.include_last_error,
        )


def _limit_ms(view: CircuitView | None) -> float:
    """Return after how many milliseconds a call is overdue by the fleet's record. Infinite if that says nothing."""
    return math.inf if view is None or view.overdue_after_ms is None else view.overdue_after_ms
