"""What is said about a call that has ended, or that goes on for too long: in its event, and to hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.emitter.event import Event
from switchgear.redaction import considered
from switchgear.telemetry.hooks import CallOutcome
from switchgear_schemas.enums import status_of
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.classify import Classification
    from switchgear.guard.permits import CallReport, Permit
    from switchgear.usage import Usage
    from switchgear_schemas.enums import CircuitState, ErrorClass, Status


class CallEnd(msgspec.Struct, frozen=True, gc=False):
    """How a call ended, as its circuits, the fleet, hooks and sessions are told.

    Attributes:
        status: For the event.
        error_class: None for a success that counts.
        error_type: Name of the exception.
        message: Of the error.
        retry_after_s: The wait that the tool asked for.
        of_server: The class for the tool's family: of the call itself, where ``error_class`` is the target's.
    """

    status: Status = "success"
    error_class: ErrorClass | None = None
    error_type: str | None = None
    message: str | None = None
    retry_after_s: float | None = None
    of_server: ErrorClass | None = None

    @property
    def named(self) -> str | None:
        """The type and the message of the error in one text."""
        error_type, message = self.error_type, self.message
        return f"{error_type}: {message}" if error_type and message else error_type or message


SUCCESS: Final = CallEnd()


def ignored(by: Classification) -> CallEnd:
    """Return the end of a success that counts nowhere."""
    return CallEnd("success", by.error_class, None, None, by.retry_after_s, by.error_class)


def failed(by: Classification, error_type: str | None, message: str, of_server: ErrorClass) -> CallEnd:
    """Return the end of a call that failed."""
    return CallEnd(status_of(by.error_class), by.error_class, error_type, message, by.retry_after_s, of_server)


def message_of(error: BaseException | str) -> str:
    """Return as much of the message as may be kept and sent: a tool's message has any length."""
    if isinstance(error, str):
        return considered(error)
    try:
        # Our own errors have one text for the model and one for operators. Events carry the operators'.
        return considered(SwitchgearError.__str__(error) if isinstance(error, SwitchgearError) else str(error))
    except Exception as broken:  # noqa: BLE001 - a user's __str__ may fail; the call must not
        return f"(its message can't be read: {type(broken).__name__})"


def outcome_of(permit: Permit, end: CallEnd, duration_ms: float) -> CallOutcome:
    """Return what hooks are told of a call that has ended."""
    return CallOutcome(
        permit.tool,
        end.status,
        duration_ms,
        end.error_class,
        end.error_type,
        permit.probe,
        permit.generation,
        permit.served_by,
        _state_at_start(permit),
    )


def _state_at_start(permit: Permit) -> CircuitState:
    """Return the circuit's state when it gave the permit. The call may have changed it since."""
    if permit.probe:
        return "half_open"
    circuit = permit.circuit
    if circuit is None:  # no circuit was asked, or an operator switched the fleet's circuit off
        return "open" if permit.generation is None else "disabled"
    state = circuit.breaker.state
    return state if state in {"disabled", "metrics_only"} else "closed"


def event_of(permit: Permit, status: Status, ms: float) -> Event:
    """Return the event of a call that has ended, or goes on, after ``ms`` milliseconds: whose it is, by which permit."""
    caller, family, lease = permit.caller, permit.family, permit.lease
    event = Event(
        permit.tool,
        status,
        ms,
        permit.generation,
        None if lease is None else lease[1],
        None,
        caller.tenant,
        caller.user_id,
        caller.session_id,
        caller.request_id,
    )
    event.target = caller.target or None
    if family is not None:
        event.family_generation = family.generation
        event.family_lease_id = None if family.lease is None else family.lease[1]
    return event


def ended_event(permit: Permit, end: CallEnd, report: CallReport, duration_ms: float, usage: Usage) -> Event:
    """Return the event of a call that has ended, at the cost of ``usage``."""
    event = event_of(permit, end.status, duration_ms)
    if end is not SUCCESS:
        event.error_type, event.error_message, event.error_class = end.error_type, end.message, end.error_class
        event.retry_after_s = end.retry_after_s
    event.input_tokens, event.output_tokens = usage.input_tokens, usage.output_tokens
    event.cache_creation_tokens, event.cost_usd = usage.cache_creation_tokens, usage.cost_usd
    event.parameters_hash, event.output_size = permit.parameters_hash, report.output_size
    event.metadata = None if report.metadata is None else dict(report.metadata)
    return event
