"""Breaker: one circuit, folded from results, timers and commands. Pure: no I/O, no lock, the clock is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from switchgear.breaker import snapshot
from switchgear.breaker.core import Core
from switchgear.breaker.half_open import HalfOpen
from switchgear.breaker.states import COUNTING, PASSING, STATE_OF_MODE, STATES
from switchgear.breaker.values import BreakerPermit, BreakerRejection, Cause, ProbeLease, Result, Transition
from switchgear_schemas.enums import CircuitState, Verb
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


class Breaker(Core):
    """The state machine of one circuit.

    Times are float seconds of one clock, monotonic or epoch, as the owner likes; a ``now`` that goes back is taken as the
    latest one seen, unless by more than an hour: then that one was wrong. Folding the same calls gives the same state to the byte. Not thread-safe: the owner serialises calls.

    At ``now >= open_until`` a probe may go; rules compare ``>=``; a call is slow when it took *more* than the threshold;
    an ignored outcome is neutral; rules are evaluated on every recorded result.

    Attributes:
        circuit_id: Which circuit; seeds the jitter.
        policy: The policy in force; change it with :meth:`set_policy`.
        state: The state as of the last call; :meth:`advance` first to see timers applied.
        previous_state: The state before; None until the first change.
        generation: Number of changes of state so far.
        attempt: Opens in a row without a close between them.
        changed_at: When the state changed.
        open_until: From when a probe may go; kept through half-open.
        cause: Why the last transition happened.
        quiet: The permit under which a call may be made, and its success left out, without asking; see :class:`Core`.
    """

    __slots__ = ()

    # ---- deciding in one process

    def try_acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        """Ask whether a call may be made now. Never raises.

        An open circuit whose wait is over becomes half-open here and hands out its probes to whoever asks first.
        """
        passing = self._pass
        if passing is not None:
            return passing
        return self._acquire(now)

    def _acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        state = self.state
        if state in PASSING:  # a fixed window: the permit names the one it belongs to
            now = self._latest(now)
            self._evidence.window.roll(now)
            return BreakerPermit(self.circuit_id, self.generation, None, self._evidence.window.stamp)
        until = self.open_until
        if state == "open" and until is not None and now < until:
            self._rejected += 1
            return BreakerRejection(self.circuit_id, state, self.generation, until - now, self.cause)
        now = self._latest(now)
        self._expire(now)
        self._end_wait(now)
        half_open = self._half_open
        if half_open is not None and half_open.room(self.policy) > 0:
            return BreakerPermit(self.circuit_id, self.generation, half_open.lease(self.generation))
        self._rejected += 1
        return BreakerRejection(self.circuit_id, self.state, self.generation, self.retry_after_s(now), self.cause)

    def would_refuse(self, now: float) -> bool:
        """Whether :meth:`try_acquire` at ``now`` would refuse. A pure look: takes no probe, and moves neither state nor clock."""
        half_open = self._half_open
        if half_open is not None and self._after_stay(now) is None:
            return half_open.room(self.policy) <= 0
        if half_open is not None or (self.state == "open" and self.open_until is not None):
            return self.open_at(now) is not None
        return self.state not in PASSING

    def open_at(self, now: float) -> tuple[float, float] | None:
        """Since when and until when calls are refused at ``now``, also where a half-open stay ended that nobody asked after.

        None where they are not, or no instant is known. A pure look, as :meth:`would_refuse`.
        """
        since, until = self.changed_at, self.open_until
        if self.state != "open":
            ended = self._after_stay(now)
            if ended is None:
                return None
            since, until, now = ended
        return (since, until) if until is not None and now < until else None

    def release(self, permit: BreakerPermit, now: float) -> None:
        """Give a permit back: the call was never made."""
        self._expire(self._latest(now))
        if self._half_open is not None and permit.generation == self.generation:
            self._half_open.give_back(permit.lease_id)

    def abandon_probes(self) -> None:
        """Whoever held the probes is gone, and none comes back: others may go in their place."""
        if self._half_open is not None:
            self._half_open.outstanding.clear()

    def record(self, now: float, result: Result, permit: BreakerPermit | None = None) -> Transition | None:
        """Count a finished call.

        A permit of an older generation, of an earlier fixed window or already used makes the result void. Without a
        permit it counts in a closed circuit only.

        Args:
            now: When it finished.
            result: What it was.
            permit: What :meth:`try_acquire` gave for it.

        Returns:
            The transition it led to, if any.
        """
        if now < self._clock:
            now = self._gone_back(now)
        else:
            self._clock = now
        if self.state in COUNTING:
            if permit is not None and permit is not self._pass and self._is_void(now, permit):
                return None
            return self._count(now, result)
        expired = self._expire(now)
        if permit is None or permit.generation != self.generation:
            return expired
        return self._probe(now, result, permit.lease_id) or expired

    # ---- deciding for the fleet

    @property
    def leases(self) -> tuple[ProbeLease, ...]:
        """The probes that are out; all of them end with the half-open stay."""
        if self._half_open is None:
            return ()
        end = self._half_open_until()
        return tuple(ProbeLease(lease_id, emitter, end) for lease_id, emitter in self._half_open.outstanding.items())

    @property
    def remaining_probes(self) -> int:
        """How many more probes may go now; 0 where the circuit is not half-open."""
        return 0 if self._half_open is None else max(0, self._half_open.room(self.policy))

    def request_lease(self, now: float, emitter_id: str) -> Transition | None:
        """A process asks to probe.

        Returns:
            The transition to publish, with the lease among :attr:`leases`; None where nothing changed: the wait is not
            over, every permit is out, the circuit is not open, or this process holds a lease already.
        """
        now = self._latest(now)
        moved = self._expire(now)
        moved = self._end_wait(now) or moved
        half_open = self._half_open
        if half_open is None or half_open.held_by(emitter_id) or half_open.room(self.policy) <= 0:
            return moved
        half_open.lease(self.generation, emitter_id)
        return moved or self._within(now, Cause(rule="lease_granted", actor=emitter_id))

    def record_event(
        self,
        now: float,
        result: Result,
        *,
        generation: int | None,
        lease_id: str | None,
        started_at: float | None = None,
    ) -> Transition | None:
        """Count a call that some process of the fleet reports.

        Args:
            now: The event's time by the log.
            result: What the call was.
            generation: Of the circuit when it let the call through. An older one makes the result void; None is a caller
                that asks no circuit: it counts while closed, and is evidence as good as a probe's where the call began
                after the wait was over.
            lease_id: The probe's lease; without a live one nothing counts in half-open.
            started_at: When the call began, by the same clock.

        Returns:
            The transition it led to, if any.
        """
        now = self._latest(now)
        if self.state in COUNTING:
            if generation is not None and generation < self.generation:
                return None
            window = self._evidence.window
            if window.fixed and started_at is not None and window.stamp_of(started_at) < window.stamp_of(now):
                return None
            return self._count(now, result)
        expired = self._expire(now)
        if generation is None:
            return self._unasked(now, result, started_at) or expired
        if generation != self.generation:
            return expired
        return self._probe(now, result, lease_id) or expired

    # ---- both

    @property
    def last_seen(self) -> float:
        """The latest instant at which anything but a passing permit was asked or recorded."""
        return self._clock

    def is_idle(self, now: float) -> bool:
        """Whether forgetting this circuit would change nothing: it is as it began, with no evidence left."""
        return self.is_stale(now) and self._evidence.streak == 0 and self._evidence.cusum == 0

    def is_stale(self, now: float) -> bool:
        """Whether nothing but an old run of failures is left: as the policy's mode began it, with an empty window."""
        if self.state != STATE_OF_MODE[self.policy.mode] or self.state not in PASSING:
            return False
        self._evidence.window.roll(max(now, self._clock))
        return self._evidence.window.calls == 0

    def advance(self, now: float) -> Transition | None:
        """Apply timers up to ``now``: a half-open stay without a verdict ends in open, dated at the instant it was due."""
        return self._expire(self._latest(now))

    def command(  # noqa: PLR0911 - a return a verb
        self, verb: Verb, now: float, *, actor: str, reason: str = "", until: float | None = None
    ) -> Transition | None:
        """Do what an operator tells.

        Args:
            verb: ``force_open`` (with ``until``: open until then, then probes; without: until told otherwise), ``close``,
                ``reset`` (close and forget the evidence), ``disable``, ``metrics_only``, or ``auto`` (the state that the
                policy's mode gives, where an operator's command is in force).
            now: When.
            actor: Who commands.
            reason: Why.
            until: See ``force_open``.

        Returns:
            The transition to publish, or None where nothing changed.

        Raises:
            SwitchgearError: for ``set_policy``, which carries a policy: call :meth:`set_policy`.
        """
        now = self._latest(now)
        cause = Cause(rule="command", actor=actor, reason=reason or None)
        if verb == "reset":
            self._evidence.clear()
            self.attempt, self._retry_at = 0, None
            if self.state == "closed":
                self._rejected = 0
                self._settle()
                return self._within(now, cause)
            return self._move("closed", now, cause)
        if verb == "force_open":
            if until is None:
                return self._go("forced_open", now, cause)
            if self.state == "open":
                self.open_until = until
                return self._within(now, cause)
            return self._move("open", now, cause, open_until=until)
        if verb == "auto":
            commanded = self.cause is not None and self.cause.rule == "command"
            if self.state in ("closed", "half_open") or (self.state == "open" and not commanded):
                return None
            return self._go(STATE_OF_MODE[self.policy.mode], now, cause)
        target = _STATE_OF_VERB.get(verb)
        if target is None:
            raise SwitchgearError(f"The command {verb} carries a policy.", hint="Call set_policy with it.")
        return self._go(target, now, cause)

    def transition_to(
        self, state: CircuitState, now: float, *, actor: str, reason: str = "", open_for_s: float | None = None
    ) -> Transition | None:
        """Move to a state directly; to the present one is no change.

        Args:
            state: Where to.
            now: When.
            actor: Who moves it.
            reason: Why.
            open_for_s: For ``open``: seconds until the first probe, instead of the policy's wait.

        Raises:
            IllegalTransitionError: where the table of transitions does not hold it.
        """
        now = self._latest(now)
        self._expire(now)
        cause = Cause(rule="command", actor=actor, reason=reason or None)
        return self._go(state, now, cause, None if open_for_s is None else now + open_for_s)

    def set_policy(self, policy: BreakerPolicy, now: float) -> Transition | None:
        """Go on under another policy; state, wait and probes stay, evidence where it still means something.

        Returns:
            The transition that a change of ``mode`` makes, or None. A state that an operator commanded stays.
        """
        now = self._latest(now)
        old, self.policy = self.policy.mode, policy
        self._evidence.adapt(policy, now)
        self._settle()
        return self._follow_mode(old, now)

    def snapshot(self) -> bytes:
        """Everything, as compact versioned bytes."""
        cause, cause_details = snapshot.save_cause(self.cause)
        return snapshot.encode(
            snapshot.Saved(
                format=snapshot.FORMAT,
                circuit_id=self.circuit_id,
                state=STATES.index(self.state),
                previous_state=None if self.previous_state is None else STATES.index(self.previous_state),
                mode=self.policy.mode,
                generation=self.generation,
                attempt=self.attempt,
                changed_at=float(self.changed_at),
                open_until=_float(self.open_until),
                clock=float(self._clock),
                retry_at=_float(self._retry_at),
                rejected=self._rejected,
                total_calls=self._total_calls,
                total_failed=self._total_failed,
                cause=cause,
                half_open=None if self._half_open is None else self._half_open.dump(),
                evidence=snapshot.save_evidence(self._evidence),
                cause_details=cause_details,
            )
        )

    @classmethod
    def restore(cls, data: bytes, policy: BreakerPolicy) -> Breaker:
        """The circuit that :meth:`snapshot` saved, under ``policy``: as :meth:`set_policy` where that is another one.

        Raises:
            SnapshotError: for bytes that are no snapshot, one of a newer format, or one that no circuit can be in.
        """
        saved = snapshot.decode(data)
        breaker = cls(saved.circuit_id, policy, saved.clock)
        breaker.state = STATES[saved.state]
        breaker.previous_state = None if saved.previous_state is None else STATES[saved.previous_state]
        breaker.generation, breaker.attempt = saved.generation, saved.attempt
        breaker.changed_at, breaker.open_until = saved.changed_at, saved.open_until
        breaker._retry_at, breaker._rejected = saved.retry_at, saved.rejected
        breaker._total_calls, breaker._total_failed = saved.total_calls, saved.total_failed
        breaker.cause = snapshot.load_cause(saved.cause, saved.cause_details)
        if saved.half_open is not None:
            breaker._half_open = HalfOpen.load(saved.half_open)
        breaker._evidence = snapshot.load_evidence(saved.evidence, policy, saved.clock)
        breaker._settle()
        breaker._follow_mode(saved.mode, saved.clock)
        return breaker


def _float(moment: float | None) -> float | None:
    return None if moment is None else float(moment)  # an int would come back as a float, and differ in its bytes


_STATE_OF_VERB: Final[dict[Verb, CircuitState]] = {
    "close": "closed",
    "disable": "disabled",
    "metrics_only": "metrics_only",
}


IDLE_S: Final = 3_600.0
"""A closed circuit without evidence retires when nothing was recorded for this long. Not at once: a slow call that is still
out would come back to a circuit that nobody asks any more, and its failure would be lost."""
STALE_S: Final = 86_400.0
"""A closed circuit whose window is empty, but that still holds a run of failures, retires after this."""


def may_retire(breaker: Breaker, now: float, idle_s: float = IDLE_S) -> bool:
    """Whether forgetting ``breaker`` loses nothing that may still decide: never an open, commanded or counting one.

    Args:
        breaker: The circuit; its owner keeps others away from it meanwhile.
        now: Seconds on the breaker's clock.
        idle_s: How long nothing was recorded, in seconds.
    """
    quiet_s = now - breaker.last_seen
    return quiet_s >= idle_s and (breaker.is_idle(now) or (quiet_s >= STALE_S and breaker.is_stale(now)))
