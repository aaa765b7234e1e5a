"""Teller: from the gate to the hooks. A gate without hooks has none.

A change of a process's own circuit happens under the circuit's lock, where no user's code may run: it is kept, and told by the
call that made it, once the lock is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from switchgear.call_outcome import CallOutcome
from switchgear.circuit_change import CircuitChange
from switchgear.follower.fleet_changes import FleetChanges
from switchgear_schemas.words import CircuitState, ErrorClass, Status

if TYPE_CHECKING:
    from switchgear.breaker import Transition
    from switchgear.follower.follower import CircuitFollower
    from switchgear.guard.gate import Gate
    from switchgear.guard.permit import Permit
    from switchgear.hook_list import HookList

_MOST_WAITING: Final = 10_000
"""Beyond it the oldest change is forgotten; a call tells what it made at once, so nothing waits for long."""


class Teller:
    """Thread-safe."""

    def __init__(self, hooks: HookList) -> None:
        self._hooks = hooks
        self._outcomes = "on_outcome" in hooks.wants
        self._traces = "traceparent" in hooks.wants
        self._waiting: deque[Transition] = deque(maxlen=_MOST_WAITING)

    def moved(self, transition: Transition) -> None:
        """A circuit of ours changed; its lock is held."""
        self._waiting.append(transition)

    def tell(self) -> None:
        """Tell of the changes that wait; with no lock held."""
        while self._waiting:
            try:
                transition = self._waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            self._hooks.on_transition(_change(transition))

    def ended(
        self,
        permit: Permit,
        status: Status,
        duration_ms: float,
        error_class: ErrorClass | None = None,
        error_type: str | None = None,
    ) -> None:
        """The call of ``permit`` ended: tell of it, and of what it changed."""
        if self._outcomes:
            self._hooks.on_outcome(
                CallOutcome(
                    permit.tool,
                    status,
                    duration_ms,
                    error_class,
                    error_type,
                    permit.probe,
                    permit.generation,
                    getattr(permit, "served_by", "call"),
                    _state_behind(permit),
                )
            )
        self.tell()

    def traceparent(self) -> str | None:
        """The caller's trace context, for the event."""
        return self._hooks.traceparent() if self._traces else None


def tell_hooks(hooks: HookList, gate: Gate, follower: CircuitFollower | None, wall: Callable[[], float]) -> None:
    """Have ``hooks`` told of everything that happens at ``gate``, and to the fleet's circuits."""
    teller = gate.teller = Teller(hooks)
    if "on_transition" not in hooks.wants:
        return
    gate.local.on_move = teller.moved
    if follower is not None:
        follower.listeners.append(FleetChanges(hooks.on_transition, follower, wall).on_view)


def _state_behind(permit: Permit) -> CircuitState:
    """Of the circuit, when it gave the permit: by now the call may have changed it."""
    if permit.probe:
        return "half_open"
    circuit = permit._circuit  # noqa: SLF001 - the permit is ours
    if circuit is None:  # nobody was asked; or the fleet's circuit goes before ours and lets all through
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
