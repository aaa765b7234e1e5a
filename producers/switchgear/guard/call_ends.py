"""What is said about a call that has ended, or that goes on for too long: in its event, and to hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from switchgear.emitter.event import Event
from switchgear.redaction import considered
from switchgear.telemetry.hooks import CallOutcome
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.families import FamilyPermit
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.guard.rejections import Caller
    from switchgear_schemas.enums import CircuitState, ErrorClass, ServedBy, Status


class PermittedCall(Protocol):
    """What a permit says about its call: see :class:`~switchgear.guard.permits.Permit`."""

    tool: str
    circuit: LocalCircuit | None
    generation: int | None
    caller: Caller
    lease: tuple[str, str] | None
    served_by: ServedBy
    family: FamilyPermit | None

    @property
    def probe(self) -> bool:
        """Whether it is a probe."""


def message_of(error: BaseException | str) -> str:
    """Return as much of the message as may be kept and sent: a tool's message has any length."""
    if isinstance(error, str):
        return considered(error)
    try:
        # Our own errors have one text for the model and one for operators. Events carry the operators'.
        return considered(SwitchgearError.__str__(error) if isinstance(error, SwitchgearError) else str(error))
    except Exception as broken:  # noqa: BLE001 - a user's __str__ may fail; the call must not
        return f"(its message can't be read: {type(broken).__name__})"


def named(error_type: str | None, message: str | None) -> str | None:
    """Return the type and the message of an error in one text."""
    return f"{error_type}: {message}" if error_type and message else error_type or message


def outcome_of(
    permit: PermittedCall, status: Status, duration_ms: float, error_class: ErrorClass | None, error_type: str | None
) -> CallOutcome:
    """Return what hooks are told of a call that has ended."""
    return CallOutcome(
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


def _state_at_start(permit: PermittedCall) -> CircuitState:
    """Return the circuit's state when it gave the permit. The call may have changed it since."""
    if permit.probe:
        return "half_open"
    circuit = permit.circuit
    if circuit is None:  # no circuit was asked, or an operator switched the fleet's circuit off
        return "open" if permit.generation is None else "disabled"
    state = circuit.breaker.state
    return state if state in {"disabled", "metrics_only"} else "closed"


def overdue_event(permit: PermittedCall, ran_ms: float) -> Event:
    """Return the report to the fleet about a call that goes on after ``ran_ms`` milliseconds."""
    caller, family = permit.caller, permit.family
    event = Event(permit.tool, "overdue", ran_ms, permit.generation, None if permit.lease is None else permit.lease[1])
    event.user_id, event.session_id, event.request_id = caller.user_id, caller.session_id, caller.request_id
    event.target, event.tenant = caller.target or None, caller.tenant
    if family is not None:
        event.family_generation = family.generation
        event.family_lease_id = None if family.lease is None else family.lease[1]
    return event
