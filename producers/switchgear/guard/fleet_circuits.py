"""The fleet's circuits, as this process follows them, with its requests for probes and the leases that answer them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from switchgear.breaker.ramp import admits, in_words, phase_of
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard.refusal_summary import RefusalReporter
from switchgear.guard.rejections import Caller, Rejection
from switchgear.guard.turns import Turns
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.circuit_ids import circuit_id, read_circuit_id, tool_circuit

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.base import Follower


Lease = tuple[str, str]
"""The ids of a circuit and of a lease of a probe that a call of this process uses."""
FleetAnswer = Literal["pass", "refuse", "ask"] | LeaseView
"""What a circuit's record says about a call. ``ask``: a probe may go if the owner grants a lease. A LeaseView permits it."""


ASK_AGAIN_S: Final = 1.0
"""Wait after an unanswered request for a probe. Until then calls are refused at once."""


@dataclass(slots=True)
class _Request:
    version: int
    first: float
    last: float


class FleetCircuits:
    """Answers what the fleet says about a call. Thread-safe.

    It sends one request for a probe at a time for each circuit, and hands out each lease once. Unanswered requests for
    ``silence_s`` mean that the circuit has no owner.
    """

    def __init__(
        self,
        follower: Follower,
        emitter: Emitter,
        *,
        silence_s: float,
        clock: Callable[[], float],
        wall: Callable[[], float],
        include_last_error: bool = False,
    ) -> None:
        self.follower = follower
        self._include_last_error = include_last_error
        self.emitter = emitter
        self._silence_s = silence_s
        self._clock = clock
        self.refusals = RefusalReporter(emitter, clock, wall)
        self.scoped: set[str] = follower.table.scoped
        """Tools that have circuits of users, sessions or targets."""
        self.families: set[str] = follower.table.families
        """Ids of the circuits of families that have records."""
        self.views: Mapping[str, CircuitView] = follower.table.views
        follower.broker_time.wall = wall
        self.wall: Callable[[], float] = follower.broker_time
        """The broker's time, in seconds since 1970."""
        self.turns = Turns(follower, clock, self.wall)
        self.refusals.asked = self.turns.asked
        self.paced = self.turns.paces
        """Tools whose limits were to be kept at some time."""
        self.on_family: Callable[[str, bool], object] | None = None
        """Called with a family when there is a new record of its circuit, and with whether it lets calls through."""
        self._waiting: dict[str, Future[None]] = {}
        self._requests: dict[str, _Request] = {}
        self._used_leases: dict[str, str] = {}
        self._asked: dict[str, int] = {}
        """Calls of this process by circuit, while it recovers."""
        self.forked()
        call_in_child(self.forked)
        follower.listeners.append(self.on_view)

    def forked(self) -> None:
        """Start, also in the child of a fork: requests and leases are the parent's."""
        self._lock = threading.RLock()  # a finalizer that runs while it is held may release a permit
        self._waiting.clear()
        self._requests.clear()
        self._used_leases.clear()
        self._asked.clear()

    def on_view(self, view: CircuitView) -> None:
        """Take note of a circuit's new record."""
        if view.scope == "tool" and (view.keeps_pace or view.tool_name in self.paced):
            self.turns.on_view(view)
        with self._lock:
            if view.passes or view.recovers:
                self._requests.pop(view.circuit_id, None)
                self._used_leases.pop(view.circuit_id, None)
            if not view.recovers:
                self._asked.pop(view.circuit_id, None)
            waiter = self._waiting.get(view.circuit_id)
        ours = any(lease.emitter_id == self.emitter.emitter_id for lease in view.leases)
        if view.scope == "family" and self.on_family is not None:
            self.on_family(view.tool_name, view.passes or view.recovers)
        if waiter is not None and (view.passes or view.recovers or ours) and not waiter.done():
            waiter.set_result(None)

    def view(self, tool: str, caller: Caller) -> CircuitView | None:
        """Return the circuit that decides on a call: one that refuses, else the one of the highest generation.

        The owner decides which of the tool's, the user's, the session's and the tenant's circuit counts the call. An event with a lower
        generation than that circuit's isn't counted.
        """
        view = self.views.get(tool_circuit(tool))
        if caller.target:
            return self.views.get(circuit_id(tool, "target", caller.target), view if is_commanded(view) else None)
        if tool not in self.scoped:
            return view
        ids = [circuit_id(tool, "user", caller.user_id), circuit_id(tool, "session", caller.session_id or "")]
        tenant = caller.tenant or self.follower.tenant
        if tenant:
            ids.append(circuit_id(tool, "tenant", tenant))
        candidates = [view, *map(self.views.get, ids)]
        found = [candidate for candidate in candidates if candidate is not None]
        refusing = [candidate for candidate in found if not candidate.passes]
        if refusing:
            return min(refusing, key=lambda each: each.recovers)
        return max(found, key=lambda each: (each.overrides, each.generation), default=None)

    def answer(self, view: CircuitView) -> FleetAnswer:
        """Return what ``view`` says about a call of this process now."""
        return fleet_answer(view, self.wall(), self.emitter.emitter_id)

    def decide(self, view: CircuitView, tool: str) -> Lease | Rejection | Literal["pass", "ask"]:
        """Decide about a call of ``tool`` by one circuit. Take the lease if there is one for this process.

        ``ask``: its owner may grant a probe, if it is :meth:`reachable`. If not, the process's own circuit decides alone.
        """
        found = fleet_answer(view, self.wall(), self.emitter.emitter_id)
        if isinstance(found, LeaseView):  # one call of this process uses it; the others wait for its outcome
            if self.take_lease(view.circuit_id, found.lease_id):
                return view.circuit_id, found.lease_id
        elif found == "ask" or (found == "pass" and (view.passes or self.admits(view))):
            return found
        return self.rejection(view, tool)

    def admits(self, view: CircuitView) -> bool:
        """Count a call while a circuit recovers. Return whether it is one of those that this process admits."""
        with self._lock:
            asked = self._asked[view.circuit_id] = self._asked.get(view.circuit_id, 0) + 1
        return admits(asked, view.admitted_share, phase_of(self.emitter.emitter_id))

    def reachable(self, view: CircuitView) -> bool:
        """Return whether the circuit's owner can answer a request. If not, the process's own breaker decides alone."""
        age = self.follower.age_s()
        return (
            age is not None
            and age < self.follower.stale_after_s
            and self.emitter.connected
            and not self.owner_silent(view)
        )

    def generation(self, view: CircuitView | None) -> int | None:
        """Return the generation of a circuit. One without a record has 0 once all are loaded: it has never changed."""
        if view is not None:
            return view.generation
        return 0 if self.follower.loaded else None

    def rejection(self, view: CircuitView, tool: str | None = None) -> Rejection:
        """Return the refusal of a call by ``view``. If that is a family's circuit, say which ``tool`` was called."""
        return refusal_by(view, tool or view.tool_name, self.wall(), self._include_last_error)

    # -- requests for probes, and leases ------------------------------------------------------------------------------

    def request_probe(self, view: CircuitView) -> Future[None] | None:
        """Register a request. Its future is done when the circuit passes or leases this process a probe.

        Returns:
            None if another call asks now, or has just asked: refuse this one.
        """
        with self._lock:
            now = self._clock()
            known = self._requests.get(view.circuit_id)
            if view.circuit_id in self._waiting:
                return None
            if known is None or known.version != view.version:
                self._requests[view.circuit_id] = _Request(view.version, now, now)
            elif now < known.last + ASK_AGAIN_S:
                return None
            else:
                known.last = now
            waiter = self._waiting[view.circuit_id] = Future()
            return waiter

    def ask_ahead(self, view: CircuitView, tool: str, caller: Caller) -> None:
        """Ask the owner of a circuit for a probe that no call waits for."""
        if self.request_probe(view) is not None:
            self.request_ended(view.circuit_id)
            self.refusals.refused(self.rejection(view, tool), caller=caller, probe_requested=True)

    def request_ended(self, circuit_id: str) -> None:
        """Note that the call which asked no longer waits."""
        with self._lock:
            self._waiting.pop(circuit_id, None)

    def owner_silent(self, view: CircuitView) -> bool:
        """Return whether requests about this very version were unanswered for too long: the circuit has no owner.

        Requests before the end of the wait get no answer. A process whose clock was ahead at first may have sent some.
        """
        known = self._requests.get(view.circuit_id)
        if known is None or known.version != view.version or known.last - known.first < self._silence_s:
            return False
        return view.open_until is None or self.wall() - view.open_until >= self._silence_s

    def owner_silent_s(self) -> dict[str, float]:
        """Return the seconds since the first request, by circuit, where repeated requests got no answer."""
        with self._lock:
            now = self._clock()
            return {
                circuit_id: now - known.first
                for circuit_id, known in self._requests.items()
                if known.last > known.first and (view := self.views.get(circuit_id)) and view.version == known.version
            }

    def take_lease(self, circuit_id: str, lease_id: str) -> bool:
        """Use a lease for a call. Return False if another call of this process has it."""
        with self._lock:
            if self._used_leases.get(circuit_id) == lease_id:
                return False
            self._used_leases[circuit_id] = lease_id
            return True

    def probe(self, view: CircuitView) -> Literal["", "due", "held"]:
        """Return whether a probe may be asked for, or this process has the lease of one that no call has used."""
        found = self.answer(view)
        if isinstance(found, LeaseView):
            return "" if self._used_leases.get(view.circuit_id) == found.lease_id else "held"
        return "due" if found == "ask" else ""

    def give_lease_back(self, circuit_id: str, lease_id: str) -> None:
        """Free a lease for the next call, because its call wasn't made."""
        with self._lock:
            if self._used_leases.get(circuit_id) == lease_id:
                del self._used_leases[circuit_id]


def is_commanded(view: CircuitView | None) -> bool:
    """Return whether an operator's command on the tool's own circuit holds for its targets, too.

    What the tool's own circuit counts says nothing about them: calls that name no target.
    """
    return view is not None and (
        view.overrides or view.forced or (view.cause is not None and view.cause.rule == "command")
    )


def refusal_by(view: CircuitView, tool: str, now: float, include_last_error: bool) -> Rejection:
    """Return the refusal of a call of ``tool`` by ``view`` at ``now`` (seconds since 1970)."""
    wait = None
    if view.open_until is not None and view.state != "half_open":
        left = view.open_until - now
        wait = left if left > 0 else None
    reason = view.reason
    if view.recovers:
        reason = in_words(view.admitted_share, None if view.cause is None else view.cause.reason)
    return Rejection(  # by position: with so many names CPython passes them in a dict, which takes longer
        tool,
        "forced_open" if view.forced else view.state,
        "fleet",
        reason,
        wait,
        view.last_error,
        None,
        view.generation,
        view.scope,
        None,
        view.tool_name if view.scope == "family" else None,
        0,
        read_circuit_id(view.circuit_id).whose if view.scope == "target" else "",
        view.last_error_class,
        include_last_error,
    )


def fleet_answer(view: CircuitView, now: float, emitter_id: str) -> FleetAnswer:
    """Return what ``view`` says about a call at ``now`` (seconds since 1970) of the process ``emitter_id``.

    While the circuit recovers that is ``pass``, and :meth:`FleetCircuits.admits` picks the calls.
    """
    if view.passes or view.recovers:
        return "pass"
    for lease in view.leases:
        if lease.emitter_id == emitter_id and now < lease.expires_at:
            return lease
    if view.state == "half_open" and not view.forced:
        # Other processes probe. Without a live lease the probe is lost or done, and the next one may go.
        taken = view.permits_left <= 0 and any(now < lease.expires_at for lease in view.leases)
        return "refuse" if taken else "ask"
    if view.open_until is None:
        return "refuse" if view.forced else "ask"
    return "refuse" if now < view.open_until else "ask"
