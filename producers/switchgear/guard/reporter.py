"""The end of a call: from its permit to the circuit, the fleet, the hooks and the session."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from switchgear.breaker import Result, ResultKind, result_kind
from switchgear.classify import Classification, Classifier, classify
from switchgear.classify.classification import checked
from switchgear.emitter.event import Event
from switchgear.guard.permits import CallReport, Permit
from switchgear.redaction.redact import Redactor, considered
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.telemetry.hooks import CallOutcome, CircuitChange
from switchgear_schemas.enums import CircuitState, ErrorClass, Status, status_of
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.breaker import Transition
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.probes import ProbeCoordinator
    from switchgear.telemetry.hooks import HookList


log: Final = logging.getLogger("switchgear.guard")

NOT_FAILED: Final[frozenset[ErrorClass]] = frozenset({"cancelled", "policy"})
"""Classes of errors that a session's ``max_failures`` doesn't count: no tool failed."""
_SUCCESS: Final = ResultKind.SUCCESS  # looking it up in the Enum takes longer


class Reporter:
    """Takes what permits report. Thread-safe.

    Args:
        clock: Monotonic seconds.
        probes: Gets back the leases of probes that weren't made.
        emitter: Sends the events; None without a fleet.
        classifier: The user's rule for exceptions, asked before the default one.
        redactor: The user's rule for error messages, applied before they are kept, shown or sent.
        hooks: Notified of outcomes and changes; None without any.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        probes: ProbeCoordinator,
        *,
        emitter: Emitter | None = None,
        classifier: Classifier | None = None,
        redactor: Redactor | None = None,
        hooks: HookDispatcher | None = None,
    ) -> None:
        self.clock = clock
        self.hooks = hooks
        self._probes = probes
        self._emitter = emitter
        self._classifier = classifier
        self._redactor = redactor
        self._complaints = BoundedLog(log, clock=clock)

    def report(self, permit: Permit, report: CallReport) -> None:
        """Count and send a call that was made: to its circuit, the fleet, the hooks and the sessions."""
        now = self.clock()
        error, classification, message, error_type = report.error, report.classification, None, None
        status: Status = "success"
        if error is not None:
            try:
                classification = classification or self.classify(error)
                message = _message(error) if self._redactor is None else self._redactor(_message(error))
            except BaseException:  # Ctrl-C in a rule of the user's: the call is over, and a probe's place is free
                self._give_back(permit)
                raise
            status = status_of(classification.error_class)
            error_type = None if isinstance(error, str) else type(error).__name__
        error_class = None if classification is None else classification.error_class
        retry_after_s = None if classification is None else classification.retry_after_s
        duration_ms = (now - permit.started) * 1000 if report.duration_ms is None else report.duration_ms
        usage = sum(permit.usage, report.usage) if permit.usage else report.usage
        circuit = permit.circuit
        if circuit is not None:
            kind = _SUCCESS if error_class is None else result_kind(status, error_class, circuit.breaker.policy)
            shown = f"{error_type}: {message}" if error_type and message else error_type or message
            circuit.record(
                now, Result(kind, duration_ms, usage.tokens, "", retry_after_s), permit.breaker_permit, shown
            )
        hooks = self.hooks
        if self._emitter is not None:
            user_id, session_id, request_id = permit.caller
            # Most by position: with too many names CPython passes them in a dict, which takes three times as long.
            event = Event(
                permit.tool,
                status,
                duration_ms,
                permit.generation,
                permit.lease_id,
                None,
                "",
                user_id,
                session_id,
                request_id,
                error_type,
                message,
                error_class,
                retry_after_s,
                permit.parameters_hash,
                output_size=report.output_size,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_creation_tokens=usage.cache_creation_tokens,
                cost_usd=usage.cost_usd,
                metadata=None if report.metadata is None else dict(report.metadata),
                traceparent=None if hooks is None else hooks.traceparent(),
            )
            # The fleet's next probe waits for one that failed or was ignored.
            self._emitter.emit(event, urgent=error_class is not None and permit.lease is not None)
        if hooks is not None:
            hooks.call_ended(permit, status, duration_ms, error_class, error_type)
        if permit.sessions:
            failed = error is not None and error_class not in NOT_FAILED
            for session in permit.sessions:
                session.ended(report.usage, failed=failed)

    def release(self, permit: Permit) -> None:
        """Give back what the permit of a call holds that wasn't made."""
        self._give_back(permit)
        for session in permit.sessions:
            session.not_made()

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

    def _give_back(self, permit: Permit) -> None:
        if permit.circuit is not None and permit.breaker_permit is not None:
            permit.circuit.release(permit.breaker_permit, self.clock())
        if permit.lease is not None:
            self._probes.give_back(*permit.lease)


def _message(error: BaseException | str) -> str:
    """Return as much of the message as may be kept and sent: a tool's message has any length."""
    if isinstance(error, str):
        return considered(error)
    try:
        # Our own errors have one text for the model and one for operators. Events carry the operators'.
        return considered(SwitchgearError.__str__(error) if isinstance(error, SwitchgearError) else str(error))
    except Exception as broken:  # noqa: BLE001 - a user's __str__ may fail; the call must not
        return f"(its message can't be read: {type(broken).__name__})"


_MOST_WAITING: Final = 10_000


class HookDispatcher:
    """Runs the hooks outside of every lock. Thread-safe.

    A circuit changes while its lock is held, so the change waits until the call that caused it calls :meth:`run`. At most
    10,000 changes wait; beyond that the oldest is dropped.
    """

    def __init__(self, hooks: HookList) -> None:
        self._hooks = hooks
        self._outcomes = "on_outcome" in hooks.wants
        self._traces = "traceparent" in hooks.wants
        self.wants_transitions = "on_transition" in hooks.wants
        self._waiting: deque[Transition] = deque(maxlen=_MOST_WAITING)

    def circuit_changed(self, transition: Transition) -> None:
        """Note a change of one of this process's circuits, whose lock is held."""
        self._waiting.append(transition)

    def run(self) -> None:
        """Run ``on_transition`` for the changes that wait. Call it with no lock held."""
        while self._waiting:
            try:
                transition = self._waiting.popleft()
            except IndexError:  # another thread took it
                return
            self._hooks.on_transition(_change(transition))

    def call_ended(
        self,
        permit: Permit,
        status: Status,
        duration_ms: float,
        error_class: ErrorClass | None,
        error_type: str | None,
    ) -> None:
        """Run ``on_outcome`` for a finished call, then ``on_transition`` for what it changed."""
        if self._outcomes:
            outcome = CallOutcome(
                permit.tool,
                status,
                duration_ms,
                error_class,
                error_type,
                permit.probe,
                permit.generation,
                permit.served_by,
                _state_at_start(permit),
            )
            self._hooks.on_outcome(outcome)
        self.run()

    def traceparent(self) -> str | None:
        """Return the caller's trace context for the event."""
        return self._hooks.traceparent() if self._traces else None


def _state_at_start(permit: Permit) -> CircuitState:
    """Return the circuit's state when it gave the permit. The call may have changed it since."""
    if permit.probe:
        return "half_open"
    circuit = permit.circuit
    if circuit is None:  # no circuit was asked, or an operator switched the fleet's circuit off
        return "open" if permit.generation is None else "disabled"
    state = circuit.breaker.state
    return state if state in {"disabled", "metrics_only"} else "closed"


def _change(transition: Transition) -> CircuitChange:
    cause = transition.cause
    circuit_id = transition.circuit_id
    until = transition.open_until if transition.state == "open" else None
    return CircuitChange(
        circuit_id=circuit_id,
        tool=circuit_id.partition("|user=")[0].partition("|session=")[0],
        source="local",
        previous=transition.previous,
        state=transition.state,
        generation=transition.generation,
        reason=cause.reason or cause.rule,
        retry_after_s=None if until is None else max(0.0, until - transition.at),
    )
