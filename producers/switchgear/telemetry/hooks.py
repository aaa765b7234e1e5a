"""Hooks: what a program does when a circuit changes, a call is refused, or events are lost.

Derive from :class:`Hooks` and override what you need; the others cost nothing. ``Switchgear(..., hooks=[MyHooks()])``
runs them through a :class:`~switchgear.telemetry.dispatch.HookList`: an exception in a hook is logged and goes no further.

Threads: ``on_rejected``, ``on_fallback``, ``on_cached`` and ``on_outcome`` run in the caller's thread (and task), where its span and its
context variables are; so does ``on_transition`` of the process's own circuits, in the call that moved them, and with no lock
held. ``on_transition`` of the fleet's circuits and ``on_drop`` run in the client's background thread. A hook that takes long
holds up the call, or the background: hand long work to a thread of your own.
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
    """Every method does nothing."""

    def on_transition(self, change: CircuitChange) -> None:
        """A circuit changed its state."""

    def on_rejected(self, rejection: Rejection) -> None:
        """A call was refused. Also before a fallback takes its place; keep it short, an agent in a loop is refused often."""

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """After a refusal another ``tool`` (or a function, by its name) is called instead."""

    def on_cached(self, tool: str, rejection: Rejection | None) -> None:
        """A kept result of ``tool`` is served without a call: after a ``rejection``, or because it is fresh enough (None)."""

    def on_outcome(self, outcome: CallOutcome) -> None:
        """A call ended, well or not."""

    def on_drop(self, count: int) -> None:
        """``count`` events were given up since the last time: the buffer, or the spool, was full."""

    def traceparent(self) -> str | None:
        """The W3C trace context to put on the event of the call that ends now, in this thread; None for none."""
        return None


class FunctionHooks(Hooks):
    """The same from plain functions, by keyword: ``Switchgear(hooks=[FunctionHooks(on_transition=print)])``.

    Raises:
        SwitchgearError: one of them is no function, or a coroutine function, which nobody would await.
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


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """One change of state, of this process's own circuit or of the fleet's."""

    circuit_id: str
    """The tool's name, or ``tool|user=…`` and ``tool|session=…`` for narrower circuits."""
    tool: str
    source: Literal["local", "fleet"]
    """Whose circuit it is."""
    previous: CircuitState | None
    """None where it isn't known: the first record of a fleet's circuit that this process has read."""
    state: CircuitState
    generation: int
    """Changes of state so far, of this very circuit."""
    reason: str = ""
    """The rule or command behind it, in words."""
    retry_after_s: float | None = None
    """Seconds until a probe may go; None where the circuit isn't open, or open until told otherwise."""
