"""What happens with the reports of permits' holders: to the circuits, the fleet, the hooks and the sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from switchgear.breaker import Result, ResultKind, result_kind
from switchgear.classify import Classifier, classify
from switchgear.classify.classification import Classification, checked
from switchgear.classify.result import outage_of_target
from switchgear.guard.call_ends import SUCCESS, CallEnd, ended_event, event_of, failed, ignored, message_of, outcome_of
from switchgear.guard.caller_errors import CALLER_CLASSES, run_name
from switchgear.guard.credentials import Credentials, credential_kind, limit_of
from switchgear.guard.overdue import given_up, overdue_after_s
from switchgear.guard.overdue_calls import NOT_TOLD, OverdueCalls
from switchgear.guard.permits import CallReport, Permit
from switchgear.redaction import Redactor
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.usage import of_one_call
from switchgear_schemas.circuit_ids import tool_circuit
from switchgear_schemas.enums import (
    TARGET_ERROR,
    ErrorClass,
    Status,
)

if TYPE_CHECKING:
    from switchgear.breaker import BreakerPermit
    from switchgear.emitter.event import Event
    from switchgear.guard.credentials import Held
    from switchgear.guard.families import FamilyPermit
    from switchgear.guard.fleet_circuits import FleetCircuits, Lease
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.guard.turns import Turn
    from switchgear.telemetry.hooks import HookList
    from switchgear_schemas.plain_policy import Policy


log: Final = logging.getLogger("switchgear.guard")

NOT_FAILED: Final[frozenset[ErrorClass]] = frozenset({"cancelled", "policy"})
"""Classes of errors that a session's ``max_failures`` doesn't count: no tool failed."""
_SUCCESS: Final = ResultKind.SUCCESS  # looking it up in the Enum takes longer


class Reporter:
    """Takes what permits report. Thread-safe. The user's ``classifier`` is asked before the default one."""

    def __init__(
        self,
        clock: Callable[[], float],
        fleet: FleetCircuits | None = None,
        *,
        classifier: Classifier | None = None,
        redactor: Redactor | None = None,
        hooks: HookList | None = None,
        credentials: Credentials | None = None,
        list_changes: Callable[[], int] | None = None,
    ) -> None:
        self.credentials = credentials or Credentials()
        """The credentials that tools reject, of all sessions."""
        self.clock = clock
        self.fleet = fleet
        self.hooks = hooks
        self._list_changes = list_changes
        """How often the lists of tools that models see changed since the last event."""
        self.overdue: OverdueCalls[Permit] = OverdueCalls(
            self._tell_circuits, None if fleet is None else self._tell_fleet
        )
        self._classifier = classifier
        self._redactor = redactor
        self._complaints = BoundedLog(log, clock=clock)

    def report(self, permit: Permit, report: CallReport) -> None:
        """Count and send a call that was made: to its circuits, the fleet, the hooks and the sessions."""
        now = self.clock()
        duration_ms = (now - permit.started) * 1000 if report.duration_ms is None else report.duration_ms
        end = SUCCESS
        if report.error is not None:
            end = self._failed(report.error, permit, report, duration_ms)
        elif report.classification is not None:
            end = ignored(report.classification)
        usage = of_one_call((*permit.usage, report.usage)) if permit.usage else report.usage
        overdue_ms, fleet_overdue_ms = NOT_TOLD if permit.wait is None else self.overdue.end(permit.wait)
        status, error_class, retry_after_s = end.status, end.error_class, end.retry_after_s
        credential = self._credential_ended(permit, now, status, error_class)
        circuit, family = permit.circuit, permit.family
        if circuit is not None:
            kind = _SUCCESS if error_class is None else _kind(permit, status, error_class, circuit.breaker.policy)
            result = Result(kind, duration_ms, usage.tokens, "", retry_after_s, "", False, overdue_ms, credential)
            circuit.record(now, result, permit.breaker_permit, end.named, error_class)
        if family is not None:
            result = Result(_SUCCESS, duration_ms, usage.tokens, "", retry_after_s, permit.tool, overdue_ms=overdue_ms)
            family.record(now, result, status, end.of_server, end.named)
        hooks = self.hooks
        if self.fleet is not None:
            event = ended_event(permit, end, report, duration_ms, usage)
            # With a salt of its own, one token in three processes would look like three.
            event.credential = (credential or None) if self.credentials.shared else None
            event.overdue_ms = fleet_overdue_ms
            self._paced(event, permit)
            self._add_list_changes(event)
            event.traceparent = None if hooks is None else hooks.traceparent()
            # The fleet's next probe waits for one that failed or was ignored.
            self.fleet.emitter.emit(event, urgent=error_class is not None and permit.lease_id is not None)
        if hooks is not None:
            if "on_outcome" in hooks.wants:
                hooks.on_outcome(outcome_of(permit, end, duration_ms))
            hooks.run_waiting()
        for session in permit.sessions:
            session.ended(report.usage, failed=report.error is not None and error_class not in NOT_FAILED)
        limit = permit.caller_errors
        if limit is not None and (limit.runs or report.error is not None):
            run, asked = run_name(permit.tool, permit.caller.target), _arguments(permit, report, error_class)
            limit.ended(run, permit.trial, error_class, end.error_type, end.message, asked)

    def _paced(self, event: Event, permit: Permit) -> None:
        """Add to the event of a call what it says of the call's turn, if it had one."""
        turn = permit.turn
        if turn is None or self.fleet is None:
            return
        asked, waited_ms = self.fleet.turns.say(turn.pace), round(turn.waited_s * 1000)
        found = event.metadata or {}
        if asked != 1:
            found["asked"] = asked
        if waited_ms:
            found["waited_ms"] = waited_ms
        event.metadata = found or None
        event.credential = event.credential or self.fleet.turns.credential_of(permit.caller) or None

    def _add_list_changes(self, event: Event) -> None:
        if self._list_changes is not None and (changes := self._list_changes()):
            event.metadata = {**(event.metadata or {}), "tool_list_changes": changes}

    def _tell_circuits(self, permit: Permit, now: float, ran_ms: float) -> None:
        """Count a call that goes on as slow, in the circuits of this process."""
        result = Result(ResultKind.OVERDUE, ran_ms, tool=permit.tool)
        circuit, family = permit.circuit, permit.family
        if circuit is not None:
            circuit.record(now, result, permit.breaker_permit)
        if family is not None and family.circuit is not None:
            family.circuit.record(now, result, family.breaker_permit)
        if self.hooks is not None:
            self.hooks.run_waiting()

    def _tell_fleet(self, permit: Permit, ran_ms: float) -> None:
        """Send the report about a call that goes on."""
        assert self.fleet is not None  # else nobody is told
        self.fleet.emitter.emit(event_of(permit, "overdue", ran_ms), urgent=permit.lease_id is not None)

    def misfit(self, permit: Permit, error: TypeError, arguments: str | None) -> None:
        """Count arguments that don't fit as the caller's error, and give back what the permit holds."""
        limit = permit.caller_errors
        if limit is not None:
            run, shown = run_name(permit.tool, permit.caller.target), self._shown(error)
            limit.ended(run, permit.trial, "invalid_input", type(error).__name__, shown, arguments)
        self._give_back(permit)

    def release(self, permit: Permit) -> None:
        """Give back what the permit of a call holds that wasn't made."""
        self._give_back(permit)
        if permit.caller_errors is not None and permit.trial is not None:
            permit.caller_errors.give_back(run_name(permit.tool, permit.caller.target), permit.trial)

    def _give_back(self, permit: Permit) -> None:
        self.give_back(permit.circuit, permit.breaker_permit, permit.family, permit.lease, permit.held, permit.turn)
        for session in permit.sessions:
            session.add_calls(-1)

    def give_back(
        self,
        circuit: LocalCircuit | None,
        breaker_permit: BreakerPermit | None,
        family: FamilyPermit | None,
        lease: Lease | None,
        held: Held | None,
        turn: Turn | None,
    ) -> None:
        """Give back what a call holds of its circuits and of its credential, and its turn. It isn't made."""
        if circuit is not None and breaker_permit is not None:
            circuit.release(breaker_permit, self.clock())
        if lease is not None and self.fleet is not None:
            self.fleet.give_lease_back(*lease)
        if family is not None:
            family.release(self.clock())
            if family.lease is not None and self.fleet is not None:
                self.fleet.give_lease_back(*family.lease)
        if held is not None:
            self.credentials.give_back(held, self.clock())
        if turn is not None and self.fleet is not None:
            self.fleet.turns.leave(turn)

    def _credential_ended(self, permit: Permit, now: float, status: Status, error_class: ErrorClass | None) -> str:
        """Count what the call says about the credential of its caller. Return the credential if it was rejected."""
        if error_class != "auth" and permit.held is None and not self.credentials.runs:
            return ""
        limit = None if permit.circuit is None else limit_of(permit.circuit)
        if limit is not None:
            family = None if permit.family is None else permit.family.name
            kind = credential_kind(status, error_class)
            self.credentials.ended(permit.tool, family, permit.caller, permit.held, limit, now, kind)
        elif permit.held is not None:
            self.credentials.give_back(permit.held, now)
        return self.credentials.holder_of(permit.caller) if error_class == "auth" else ""

    def _failed(self, error: BaseException | str, permit: Permit, report: CallReport, duration_ms: float) -> CallEnd:
        """Return how a failed call ended, with what its caller made of it by giving up."""
        found = report.classification or self.classify(error)
        if found.error_class == "cancelled":
            waited_ms = duration_ms if report.waited_ms is None else report.waited_ms
            found = given_up(error, found, waited_ms, self._limit_ms(permit))
        message, error_type = self._shown(error), None if isinstance(error, str) else type(error).__name__
        # An outage that a tool reports of the call's target is one of that target.
        outage = outage_of_target(found.error_class, message) if permit.caller.target else None
        if outage is None:
            return failed(found, error_type, message, found.error_class)
        return failed(Classification(outage), TARGET_ERROR, message, found.error_class)

    def _limit_ms(self, permit: Permit) -> float:
        """Return after how long a call is overdue by the policy of its circuit, else by the fleet."""
        slow_ms = None if permit.circuit is None else permit.circuit.breaker.policy.slow_call_duration_threshold_ms
        view = None if self.fleet is None else self.fleet.views.get(tool_circuit(permit.tool))
        return overdue_after_s(slow_ms, None if view is None else view.overdue_after_ms) * 1000

    def _shown(self, error: BaseException | str) -> str:
        """Return the message of ``error``, by the user's rule if there is one."""
        return message_of(error) if self._redactor is None else self._redactor(message_of(error))

    def classify(self, error: BaseException | str) -> Classification:
        """Return what kind of failure it is: by the user's rule, else by default. A message is of class ``tool``."""
        if isinstance(error, str):
            return Classification("tool")
        found = None
        if self._classifier is not None:
            try:
                found = checked(self._classifier(error))
            except Exception as broken:  # noqa: BLE001 - a user's rule may fail in any way; the call must not
                self._complaints.warning("the client's classify failed; the default decides", broken)
        return found or classify(error)


def _kind(permit: Permit, status: Status, error_class: ErrorClass, policy: Policy) -> ResultKind:
    """Return what a call says about the tool's health. If the fleet keeps the tool's limit, it learns from a 429: that is no failure."""
    if error_class == "rate_limited" and permit.turn is not None:
        return ResultKind.IGNORED
    return result_kind(status, error_class, policy)


def _arguments(permit: Permit, report: CallReport, error_class: ErrorClass | None) -> str | None:
    """Return the hash of the call's arguments if the caller's error made it fail; None if it isn't known."""
    if permit.arguments is not None and error_class in CALLER_CLASSES:
        return permit.arguments()
    return report.arguments
