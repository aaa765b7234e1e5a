"""Hooks: get notified when a circuit changes, a call ends or is refused, or events are lost.

Derive from :class:`Hooks` and override the methods that you need: ``Switchgear(..., hooks=[MyHooks()])``. An exception in a hook
is logged and doesn't affect the call.

Most methods run in the caller's thread and task, with its span and context variables, and without a lock. Only ``on_drop``, and
``on_transition`` of the fleet's circuits, run in the client's background thread. A slow hook delays the call or the background
thread, so move long work to your own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from switchgear import arguments
from switchgear.guard.rejections import Rejection
from switchgear_schemas.enums import CircuitState, ErrorClass, ServedBy, Status

__all__ = ["CallOutcome", "CircuitChange", "FunctionHooks", "Hooks"]


class Hooks:
    """The base class of hooks. Its methods do nothing."""

    def on_transition(self, change: CircuitChange) -> None:
        """Handle a change of a circuit's state."""

    def on_rejected(self, rejection: Rejection) -> None:
        """Handle the refusal of a call, also of one that a fallback serves. Keep it short: refusals can be frequent."""

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Handle a fallback: after a refusal, ``tool`` (or a function, by its name) is called instead."""

    def on_cached(self, tool: str, rejection: Rejection | None) -> None:
        """Handle a cached result, which is served after a ``rejection``, or because it is fresh (None)."""

    def on_outcome(self, outcome: CallOutcome) -> None:
        """Handle the end of a call, successful or not."""

    def on_drop(self, count: int) -> None:
        """Handle the loss of ``count`` events since the last time, because the buffer or the spool was full."""

    def traceparent(self) -> str | None:
        """Return the W3C trace context for the event of the call that ends now in this thread, or None."""
        return None


class FunctionHooks(Hooks):
    """Hooks from plain functions: ``Switchgear(hooks=[FunctionHooks(on_transition=print)])``.

    Raises:
        SwitchgearError: An argument isn't a function, or is a coroutine function.
    """

    def __init__(
        self,
        *,
        on_transition: Callable[[CircuitChange], object] | None = None,
        on_rejected: Callable[[Rejection], object] | None = None,
        on_fallback: Callable[[Rejection, str], object] | None = None,
        on_cached: Callable[[str, Rejection | None], object] | None = None,
        on_outcome: Callable[[CallOutcome], object] | None = None,
        on_drop: Callable[[int], object] | None = None,
    ) -> None:
        given = {
            "on_transition": on_transition,
            "on_rejected": on_rejected,
            "on_fallback": on_fallback,
            "on_cached": on_cached,
            "on_outcome": on_outcome,
            "on_drop": on_drop,
        }
        for name, function in given.items():
            if function is not None:
                arguments.function(name, function)
                setattr(self, name, function)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The end of one call. Refused calls have none: see ``Hooks.on_rejected``."""

    tool: str
    status: Status
    duration_ms: float
    error_class: ErrorClass | None = None
    """The class of the failure, None for a success. ``policy`` if a rule or ``permit.ignore()`` ignores the call."""
    error_type: str | None = None
    """The class name of the exception. None for a success, and for a failure reported as text."""
    probe: bool = False
    """Whether the call tested that the tool has recovered."""
    generation: int | None = None
    """The generation of the fleet's circuit, None without one."""
    served_by: ServedBy = "call"
    """``fallback`` if the tool was called instead of another one."""
    state: CircuitState = "closed"
    """The state of the circuit when the call began. ``open`` if the circuits of all fallbacks were open too, so that the tool was
    called anyway. ``disabled`` if an operator lets every call through."""


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """One change of state of a circuit."""

    circuit_id: str
    """The tool's name. ``tool|user=…`` or ``tool|session=…`` for the circuit of a user or session."""
    tool: str
    source: Literal["local", "fleet"]
    """The process's own circuit, or the fleet's."""
    previous: CircuitState | None
    """None for the first record of a fleet's circuit that this process reads."""
    state: CircuitState
    generation: int
    """The number of changes of this circuit."""
    reason: str = ""
    """The rule or command that caused the change."""
    retry_after_s: float | None = None
    """Seconds until a probe may go. None if the circuit isn't open, or is open until further notice."""
