"""CallOutcome: how one guarded call ended, as a hook is told of it."""

from __future__ import annotations

from dataclasses import dataclass

from switchgear_schemas.words import CircuitState, ErrorClass, ServedBy, Status


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """One finished call. Refused calls are no outcome: see ``Hooks.on_rejected``."""

    tool: str
    status: Status
    duration_ms: float
    error_class: ErrorClass | None = None
    """What kind of failure; None for a success, ``policy`` for one that a rule or ``permit.ignore()`` ignores."""
    error_type: str | None = None
    """Class name of the exception; None for a success, or where the tool's own message says it failed."""
    probe: bool = False
    """The call tested whether the tool has recovered."""
    generation: int | None = None
    """Of the fleet's circuit that let it through; None without one."""
    served_by: ServedBy = "call"
    """``fallback`` where the tool stood in for another one."""
    state: CircuitState = "closed"
    """Of the circuit, when it let the call through; ``open`` where every fallback's was open too and the tool was tried all the
    same, ``disabled`` where an operator lets every call through."""
