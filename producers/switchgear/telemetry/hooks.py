"""Hooks: get notified when a circuit changes, a call ends or is refused, or events are lost.

Derive from :class:`Hooks` and override the methods that you need: ``Switchgear(..., hooks=[MyHooks()])``. An exception in a hook
is logged and doesn't affect the call.

Most methods run in the caller's thread and task, with its span and context variables, and without a lock. Only ``on_drop``, and
``on_transition`` of the fleet's circuits, run in the client's background thread. A slow hook delays the call or the background
thread, so move long work to your own thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partialmethod
from typing import TYPE_CHECKING, Any, Final, Literal

from switchgear import arguments
from switchgear.guard.rejections import Rejection
from switchgear.guard.tool_function import name_of, unwrapped
from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.enums import CircuitState, ErrorClass, ServedBy, Status

if TYPE_CHECKING:
    from switchgear.breaker import Transition
    from switchgear.follower.base import Follower
    from switchgear.follower.view import CircuitView

log: Final = logging.getLogger("switchgear.hooks")

LOG_AGAIN_S: Final = 60.0
"""The time between two log entries about a hook that fails."""
_MOST_WAITING: Final = 10_000
"""The most changes that wait. Beyond that the oldest is dropped."""


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
        given = (on_transition, on_rejected, on_fallback, on_cached, on_outcome, on_drop)
        for name, function in zip(_NAMES, given, strict=False):  # not traceparent
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
    """The tool's name. ``tool|user=…`` or ``tool|session=…`` for the circuit of a user or session, ``family|family`` for that of
    a family, a server."""
    tool: str
    """For the circuit of a family: the family."""
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


_NAMES: Final = ("on_transition", "on_rejected", "on_fallback", "on_cached", "on_outcome", "on_drop", "traceparent")


class HookList:
    """Hooks in the order they were given. Its methods have the names of the hooks and don't raise. Thread-safe.

    Args:
        hooks: Their overridden methods are called.
        clock: Returns monotonic seconds, for the log.

    Raises:
        SwitchgearError: One of them isn't a hook, or has a coroutine function as a method.

    Attributes:
        wants: The names of the methods that a hook overrides. The others need no arguments.
        failures: The number of exceptions of hooks.
    """

    def __init__(self, hooks: Iterable[Hooks], *, clock: Callable[[], float] = time.monotonic) -> None:
        if isinstance(hooks, (Hooks, str)) or not isinstance(hooks, Iterable):
            arguments.impossible("hooks", "a list of hooks", hooks, "For example hooks=[MyHooks()].")
        self.hooks = tuple(hooks)
        self._methods: dict[str, list[Callable[..., Any]]] = {}
        for position, hook in enumerate(self.hooks):
            if not isinstance(hook, Hooks):
                hint = "Derive from Hooks and make an instance, or pass functions to FunctionHooks(on_transition=...)."
                arguments.impossible(f"hooks[{position}]", "an instance of Hooks", hook, hint)
            for name in _NAMES:
                method = getattr(hook, name)
                if getattr(method, "__func__", None) is not getattr(Hooks, name):
                    arguments.function(f"{name} of hooks[{position}]", method)
                    self._methods.setdefault(name, []).append(method)
        self.wants: frozenset[str] = frozenset(self._methods)
        self._throttle = Throttle(LOG_AGAIN_S, clock=clock)
        self.failures = 0
        self._waiting: deque[Transition] = deque(maxlen=_MOST_WAITING)

    def circuit_changed(self, transition: Transition) -> None:
        """Note a change of one of this process's circuits. Its lock is held, so the hooks wait for :meth:`run_waiting`."""
        self._waiting.append(transition)

    def run_waiting(self) -> None:
        """Call every ``on_transition`` for the changes that wait. Call it with no lock held."""
        while self._waiting:
            try:
                transition = self._waiting.popleft()
            except IndexError:  # another thread took it
                return
            self.on_transition(_change(transition))

    def traceparent(self) -> str | None:
        """Return the trace context of the first hook that has one, or None."""
        return next((str(found) for found in self._run("traceparent") if found is not None), None)

    def on_transition(self, change: CircuitChange) -> None:
        """Call every ``on_transition``."""
        self._run("on_transition", change, background=change.source == "fleet")

    def _run(self, name: str, *given: object, background: bool = False) -> list[Any]:
        """Return what the hooks return. With ``background`` this is the client's own thread, which no ``sys.exit()`` may end."""
        caught: tuple[type[BaseException], ...] = (Exception, SystemExit) if background else (Exception,)
        found: list[Any] = []
        for method in self._methods.get(name, ()):
            try:
                found.append(method(*given))
            except caught as error:
                self._failed(name, method, error)
        return found

    on_rejected = partialmethod(_run, "on_rejected")
    on_fallback = partialmethod(_run, "on_fallback")
    on_cached = partialmethod(_run, "on_cached")
    on_outcome = partialmethod(_run, "on_outcome")
    on_drop = partialmethod(_run, "on_drop", background=True)

    def _failed(self, name: str, method: Callable[..., Any], error: BaseException) -> None:
        self.failures += 1
        hook = f"{name_of(unwrapped(method))} ({name})"  # not its repr, which may show arguments of a partial
        left_out = self._throttle.admit(hook)
        if left_out is not None:
            more = f"; {left_out} more since the last report" if left_out else ""
            log.error("the hook %s failed; the call goes on%s", hook, more, exc_info=error)


def _change(transition: Transition) -> CircuitChange:
    cause = transition.cause
    circuit_id = transition.circuit_id
    until = transition.open_until if transition.state == "open" else None
    return CircuitChange(
        circuit_id=circuit_id,
        tool=read_circuit_id(circuit_id).name,
        source="local",
        previous=transition.previous,
        state=transition.state,
        generation=transition.generation,
        reason=cause.reason or cause.rule,
        retry_after_s=None if until is None else max(0.0, until - transition.at),
    )


class FleetChanges:
    """A listener of the follower that reports each change of state. While the circuits load, it only remembers their states.

    Args:
        report: Called with each change, in the follower's thread.
        follower: The follower.
        wall: Returns seconds since 1970.
    """

    def __init__(self, report: Callable[[CircuitChange], None], follower: Follower, wall: Callable[[], float]) -> None:
        self._report = report
        self._follower = follower
        self._wall = wall
        self._known: dict[str, CircuitState] = {}

    def on_view(self, view: CircuitView) -> None:
        """Compare a circuit's new record with the last one."""
        state: CircuitState = "forced_open" if view.forced else view.state
        previous = self._known.get(view.circuit_id)
        if len(self._known) > 2 * len(self._follower.table.views) + 100:  # circuits come and go
            self._known = {each: was for each, was in self._known.items() if each in self._follower.table.views}
        self._known[view.circuit_id] = state
        if not self._follower.loaded or state == (previous or "closed"):
            return
        until = view.open_until if state == "open" else None
        self._report(
            CircuitChange(
                circuit_id=view.circuit_id,
                tool=view.tool_name,
                source="fleet",
                previous=previous,
                state=state,
                generation=view.generation,
                reason=view.reason,
                retry_after_s=None if until is None else max(0.0, until - self._wall()),
            )
        )
