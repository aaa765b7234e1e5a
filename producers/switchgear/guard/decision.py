"""Gate: both breakers decide about a call."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from switchgear.breaker import BreakerPermit, BreakerRejection
from switchgear.classify import Classifier
from switchgear.follower.status import STALE_AFTER_S
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit
from switchgear.guard.permits import NOBODY, Caller, Permit, caller_of
from switchgear.guard.probes import ProbeCoordinator
from switchgear.guard.refusal_summary import RefusalReporter
from switchgear.guard.rejections import Rejection
from switchgear.guard.reporter import OutcomeRecorder
from switchgear_schemas.enums import Scope

if TYPE_CHECKING:
    from concurrent.futures import Future

    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower


@dataclass(frozen=True, slots=True)
class PendingProbe:
    """The answer "wait": a probe was requested, ``answer`` is done when the fleet has said something."""

    view: CircuitView
    answer: Future[None]
    circuit: LocalCircuit
    inner: BreakerPermit
    caller: Caller


class Gate(OutcomeRecorder):
    """Thread-safe. Without an emitter and a follower it is a complete local circuit breaker."""

    def __init__(
        self,
        local: LocalBreakers,
        *,
        emitter: Emitter | None,
        follower: CircuitFollower | None,
        classifier: Classifier | None,
        silence_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(local, emitter, classifier, clock)
        self._follower = follower
        self._circuits = local.circuits
        self._scoped: set[str] = set() if follower is None else follower.table.scoped
        self._views: Mapping[str, CircuitView] = {} if follower is None else follower.table.views
        self._wall = wall
        if follower is not None:
            follower.broker_time.wall = wall
            self._wall = follower.broker_time
        self._of_session = False
        """The breakers are a session's own."""
        self.routed: set[str] = set()
        """Tools that have a fallback here: their refusals are not the end of the call."""
        self.probes = ProbeCoordinator(silence_s=silence_s, clock=clock)
        self.refusals = None if emitter is None else RefusalReporter(emitter, clock, wall)
        if emitter is not None:
            self.probes.emitter_id = emitter.emitter_id
        if follower is not None:
            follower.listeners.append(self.probes.on_view)

    def acquire(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection | PendingProbe:
        """Decide, in memory. :class:`PendingProbe` is to be passed to :meth:`asked` once its answer is there, or too late."""
        view = self._views.get(tool)
        if self._scoped and tool in self._scoped:
            view = self._narrowest(tool, user_id, session_id, view)
        caller = caller_of(user_id, session_id, request_id) if user_id or session_id or request_id else NOBODY
        if view is not None and not view.passes:
            return self._not_closed(view, caller)
        if view is not None and view.overrides:
            return Permit(self, tool, None, None, self._clock(), view.generation, caller)
        return self._locally(tool, view, caller)

    def _not_closed(self, view: CircuitView, caller: Caller) -> Permit | Rejection | PendingProbe:
        """The fleet's circuit is open, forced open or half-open."""
        verdict = judge(view, self._wall(), self.probes.emitter_id)
        if verdict is Verdict.REFUSE:
            return self._refusal(view)
        if isinstance(verdict, LeaseView):
            return self._leased(view, verdict, caller)
        if self._reachable(view):
            return self._ask(view, caller)
        return self._locally(view.tool_name, view, caller)

    def _locally(
        self, tool: str, view: CircuitView | None, caller: Caller, lease: tuple[str, str] | None = None
    ) -> Permit | Rejection:
        """The fleet has nothing against it, or is out of reach: the process's own breaker decides."""
        now = self._clock()
        circuit = self._circuits.get(tool) or self.local.get(tool, caller[0], caller[1])
        inner: BreakerPermit | BreakerRejection | None = circuit.breaker.quiet
        if inner is None:
            inner = circuit.try_acquire(now)
            if self.dispatcher is not None:  # an open circuit whose wait is over becomes half-open by being asked
                self.dispatcher.tell()
        if isinstance(inner, BreakerRejection):
            return self._local_refusal(tool, inner, circuit, view)
        generation = self._unseen() if view is None else view.generation
        return Permit(self, tool, circuit, inner, now, generation, caller, lease)

    def refused_at_once(self, tool: str, circuit: LocalCircuit) -> Rejection | None:
        """A refusal that nothing but an instant decides, reported in bounded number; None: ask :meth:`acquire`.

        Args:
            tool: of scope ``tool``, here and in the fleet's circuit.
            circuit: the tool's own.
        """
        view = self._views.get(tool)
        if tool in self.routed:
            return None
        if view is not None and (view.fallback or view.overrides or view.leases or tool in self._scoped):
            return None
        now = self._clock()
        if view is not None and not view.passes:
            if view.state == "half_open" or view.open_until is None or self._wall() >= view.open_until:
                return None
            refusal = self._refusal(view)
        else:
            found = circuit.refusal(tool, now, None if view is None else view.generation)
            if found is None:
                return None
            refusal = found
        if self.refusals is not None:
            self.refusals.refused_again(refusal, now)
        return refusal

    def asked(self, asking: PendingProbe) -> Permit | Rejection:
        """The answer to a requested probe, by what the follower knows now: a lease, a closed circuit, or a refusal."""
        self.probes.answered(asking.view.circuit_id)
        view = self._views.get(asking.view.circuit_id, asking.view)
        verdict = judge(view, self._wall(), self.probes.emitter_id)
        lease = None
        if isinstance(verdict, LeaseView) and self.probes.take(view.circuit_id, verdict.lease_id):
            lease = (view.circuit_id, verdict.lease_id)
        elif verdict is not Verdict.PASS:
            self._put_back(asking.circuit, asking.inner)
            return self._refusal(view)
        tool, circuit, inner = view.tool_name, asking.circuit, asking.inner
        return Permit(self, tool, circuit, inner, self._clock(), view.generation, asking.caller, lease)

    def give_up(self, asking: PendingProbe) -> None:
        """The caller was cancelled while it waited."""
        self.probes.answered(asking.view.circuit_id)
        self._put_back(asking.circuit, asking.inner)

    def unguarded(self, tool: str) -> Permit:
        """A permit that nobody was asked for: when every fallback is open too, the primary is tried all the same."""
        return Permit(self, tool, None, None, self._clock(), None, NOBODY)

    def is_open(self, tool: str, user_id: str = "", session_id: str | None = None) -> bool:
        """Would a call be refused now? Asks without taking anything."""
        view = self._views.get(tool)
        if self._scoped and tool in self._scoped:
            view = self._narrowest(tool, user_id, session_id, view)
        if view is not None and not view.passes and judge(view, self._wall(), self.probes.emitter_id) is Verdict.REFUSE:
            return True
        if view is not None and view.overrides:
            return False
        circuit = self.local.known(tool, user_id, session_id)
        if circuit is None:
            return False
        now = self._clock()
        with circuit.lock:
            return circuit.breaker.would_refuse(now)

    def released(self, permit: Permit) -> None:
        """The call of ``permit`` was never made."""
        if permit._circuit is not None and permit._inner is not None:  # noqa: SLF001 - the permit is ours
            self._put_back(permit._circuit, permit._inner)  # noqa: SLF001
        if permit._lease is not None:  # noqa: SLF001
            self.probes.give_back(*permit._lease)  # noqa: SLF001

    def fleet_fallback(self, tool: str) -> tuple[str, ...]:
        """The fallback tools that the fleet's circuit names."""
        view = self._views.get(tool)
        return () if view is None else view.fallback

    def with_breakers(self, local: LocalBreakers) -> Gate:
        """The same gate before other breakers, a session's: what the fleet says and who is told of it stay the same."""
        twin = copy.copy(self)
        local.on_move = self.local.on_move
        twin.local = local
        twin._of_session = True  # noqa: SLF001 - of this class
        twin._circuits = local.circuits  # noqa: SLF001 - of this class
        return twin

    def forked(self) -> None:
        """In a child of a fork: own locks, own identity."""
        self.probes.forked()
        if self.refusals is not None:
            self.refusals.forked()
        if self._emitter is not None:
            self.probes.emitter_id = self._emitter.emitter_id

    def _leased(self, view: CircuitView, lease: LeaseView, caller: Caller) -> Permit | Rejection:
        """This process holds a lease: one call goes under it, the others wait for its verdict."""
        if not self.probes.take(view.circuit_id, lease.lease_id):
            return self._refusal(view)
        answer = self._locally(view.tool_name, view, caller, (view.circuit_id, lease.lease_id))
        if isinstance(answer, Rejection):
            self.probes.give_back(view.circuit_id, lease.lease_id)
        return answer

    def _ask(self, view: CircuitView, caller: Caller) -> PendingProbe | Rejection:
        """Request a probe of the circuit's owner, where this process would call at all."""
        circuit = self.local.get(view.tool_name, caller[0], caller[1])
        now = self._clock()
        inner = circuit.try_acquire(now)
        if isinstance(inner, BreakerRejection):
            return self._local_refusal(view.tool_name, inner, circuit, view)
        answer = self.probes.ask(view)
        if answer is None:
            self._put_back(circuit, inner)
            return self._refusal(view)
        assert self.refusals is not None  # a view came from a follower, and beside it is an emitter
        user_id, session_id, request_id = caller
        self.refusals.refused(
            self._refusal(view), probe_requested=True, user_id=user_id, session_id=session_id, request_id=request_id
        )
        return PendingProbe(view, answer, circuit, inner, caller)

    def _narrowest(
        self, tool: str, user_id: str, session_id: str | None, view: CircuitView | None
    ) -> CircuitView | None:
        """Of the circuits that a call belongs to, the one that refuses; with none, the one of the highest generation.

        Which of them counts the call is its owner's to say: with a lower generation than that one's the result would be void.
        """
        candidates = [view, self._views.get(f"{tool}|user={user_id}"), self._views.get(f"{tool}|session={session_id}")]
        found = [candidate for candidate in candidates if candidate is not None]
        refusing = next((candidate for candidate in found if not candidate.passes), None)
        return refusing or max(found, key=lambda each: (each.overrides, each.generation), default=None)

    def _reachable(self, view: CircuitView) -> bool:
        """Whether somebody can answer a request. If not, the process's own breaker decides alone from here on."""
        follower, emitter = self._follower, self._emitter
        if follower is None or emitter is None:
            return False
        age = follower.age_s()
        return age is not None and age < STALE_AFTER_S and emitter.connected and not self.probes.silent(view)

    def _unseen(self) -> int | None:
        """Generation of a circuit without a record: 0 when all were read, for then it has never changed."""
        return 0 if self._follower is not None and self._follower.loaded else None

    def _put_back(self, circuit: LocalCircuit, inner: BreakerPermit) -> None:
        circuit.release(inner, self._clock())

    def _refusal(self, view: CircuitView) -> Rejection:
        now = self._wall()
        wait = None
        if view.open_until is not None and view.state != "half_open" and now < view.open_until:
            wait = view.open_until - now
        return Rejection(
            tool=view.tool_name,
            state="forced_open" if view.forced else view.state,
            source="fleet",
            reason=view.reason,
            retry_after_s=wait,
            last_error=view.last_error,
            fallback=next((tool for tool in view.fallback if not self.is_open(tool)), None),
            generation=view.generation,
            scope=view.scope,
        )

    def _local_refusal(
        self, tool: str, inner: BreakerRejection, circuit: LocalCircuit, view: CircuitView | None
    ) -> Rejection:
        reason, error = circuit.words()
        fallback = None if view is None or not view.fallback else view.fallback[0]
        generation = None if view is None else view.generation
        scope: Scope = "tool" if inner.circuit_id == tool else circuit.breaker.policy.scope
        if self._of_session:
            scope = "session"
        return Rejection(
            tool, inner.state, "local", reason, inner.retry_after_s, error, fallback, generation, scope, inner.cause
        )


class Verdict(Enum):
    """Beside a LeaseView, which is the permission to probe."""

    PASS = "closed, or not enforced"  # noqa: S105 - not a password
    REFUSE = "open"
    ASK = "a probe may go: ask the owner for a lease"


def judge(view: CircuitView, now: float, emitter_id: str) -> Verdict | LeaseView:
    """Decide for a call at ``now`` (seconds since 1970) of the process ``emitter_id``."""
    if view.passes:
        return Verdict.PASS
    for lease in view.leases:
        if lease.emitter_id == emitter_id and now < lease.expires_at:
            return lease
    if view.state == "half_open" and not view.forced:
        # Others probe. Without a live lease the probe is lost or done, and the next one is free.
        taken = view.permits_left <= 0 and any(now < lease.expires_at for lease in view.leases)
        return Verdict.REFUSE if taken else Verdict.ASK
    if view.open_until is None:
        return Verdict.REFUSE if view.forced else Verdict.ASK
    return Verdict.REFUSE if now < view.open_until else Verdict.ASK
