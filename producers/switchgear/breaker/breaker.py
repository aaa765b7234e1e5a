"""The breaker: one circuit, folded from results, timers and commands. It does no I/O, holds no lock and reads no clock."""

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

    Times are float seconds of one clock, monotonic or since 1970. If ``now`` goes backwards, the latest instant counts on. If it
    goes back by more than an hour, the latest instant was wrong. Folding the same calls gives the same state to the byte. A breaker
    is not thread-safe: its owner serialises calls.

    A probe is permitted at ``now >= open_until``. Rules compare by ``>=`` and are evaluated on every result. A call is slow if it
    took *more* than the threshold. An ignored result changes nothing.

    Attributes:
        circuit_id: The circuit's id, which is also the seed of the jitter.
        policy: The policy in force. Change it with :meth:`set_policy`.
        state: The state as of the last call. Call :meth:`advance` first to apply timers.
        previous_state: The state before. None until the first change.
        generation: Number of changes of state so far.
        attempt: Opens in a row without a close between them.
        changed_at: When the state changed.
        open_until: When the first probe is permitted. A half-open circuit keeps it.
        cause: Why the last transition happened.
        quiet: The permit for calls that need not ask, see :class:`Core`.
    """

    __slots__ = ()

    # ---- deciding in one process

    def try_acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        """Ask whether a call may be made now. It never raises.

        An open circuit whose wait is over becomes half-open here. The first callers get the probes.
        """
        passing = self._pass
        if passing is not None:
            return passing
        return self._acquire(now)

    def _acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        state = self.state
        if state in PASSING:  # a fixed window: the permit names it
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
        """Return whether :meth:`try_acquire` would refuse at ``now``. It takes no probe and changes nothing."""
        half_open = self._half_open
        if half_open is not None and self._ended_stay(now) is None:
            return half_open.room(self.policy) <= 0
        if half_open is not None or (self.state == "open" and self.open_until is not None):
            return self.open_at(now) is not None
        return self.state not in PASSING

    def open_at(self, now: float) -> tuple[float, float] | None:
        """Return since when and until when calls are refused at ``now``, or None if they are not, or no instant is known.

        A half-open stay that ended since the last call counts as open. Nothing changes.
        """
        since, until = self.changed_at, self.open_until
        if self.state != "open":
            ended = self._ended_stay(now)
            if ended is None:
                return None
            since, until, now = ended
        return (since, until) if until is not None and now < until else None

    def release(self, permit: BreakerPermit, now: float) -> None:
        """Give a permit back, because the call was not made."""
        self._expire(self._latest(now))
        if self._half_open is not None and permit.generation == self.generation:
            self._half_open.give_back(permit.lease_id)

    def abandon_probes(self) -> None:
        """Drop the probes that are out, because their holders are gone. Others may go in their place."""
        if self._half_open is not None:
            self._half_open.outstanding.clear()

    def record(self, now: float, result: Result, permit: BreakerPermit | None = None) -> Transition | None:
        """Count a finished call.

        The result is dropped if its permit is used, of an older generation or of an earlier fixed window. Without a permit it counts
        only in a closed circuit.

        Args:
            now: When the call finished.
            result: How it ended.
            permit: What :meth:`try_acquire` returned for it.

        Returns:
            The transition that followed, if any.
        """
        if now < self._clock:
            now = self._go_back(now)
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
        """The probes that are out. All of them end with the half-open stay."""
        if self._half_open is None:
            return ()
        end = self._half_open_until()
        return tuple(ProbeLease(lease_id, emitter, end) for lease_id, emitter in self._half_open.outstanding.items())

    @property
    def remaining_probes(self) -> int:
        """How many more probes are permitted now. It is 0 if the circuit is not half-open."""
        return 0 if self._half_open is None else max(0, self._half_open.room(self.policy))

    def request_lease(self, now: float, emitter_id: str) -> Transition | None:
        """Grant a probe to a process that asks for one.

        Returns:
            The transition to publish, with the lease among :attr:`leases`. None if nothing changed: the circuit is not open, its
            wait is not over, every permit is out, or the process holds a lease already.
        """
        now = self._latest(now)
        moved = self._expire(now)
        moved = self._end_wait(now) or moved
        half_open = self._half_open
        if half_open is None or half_open.held_by(emitter_id) or half_open.room(self.policy) <= 0:
            return moved
        half_open.lease(self.generation, emitter_id)
        return moved or self._stay(now, Cause(rule="lease_granted", actor=emitter_id))

    def record_event(
        self,
        now: float,
        result: Result,
        *,
        generation: int | None,
        lease_id: str | None,
        started_at: float | None = None,
    ) -> Transition | None:
        """Count a call that a process of the fleet reports.

        Args:
            now: The time of the event in the log.
            result: How the call ended.
            generation: The circuit's generation when it permitted the call. An older generation drops the result. None means that
                the caller has no guard: its calls count in a closed circuit, and like a probe if they began after the wait.
            lease_id: The probe's lease. In a half-open circuit nothing counts without a lease that is out.
            started_at: When the call began, by the same clock.

        Returns:
            The transition that followed, if any.
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
            return self._unguarded(now, result, started_at) or expired
        if generation != self.generation:
            return expired
        return self._probe(now, result, lease_id) or expired

    # ---- both

    @property
    def last_seen(self) -> float:
        """The latest instant at which something was recorded, or asked and not simply permitted."""
        return self._clock

    def is_idle(self, now: float) -> bool:
        """Return whether the circuit is as it began, without evidence."""
        return self.is_stale(now) and self._evidence.streak == 0 and self._evidence.cusum == 0

    def is_stale(self, now: float) -> bool:
        """Return whether the circuit is as it began, but for an old run of failures."""
        if self.state != STATE_OF_MODE[self.policy.mode] or self.state not in PASSING:
            return False
        self._evidence.window.roll(max(now, self._clock))
        return self._evidence.window.calls == 0

    def advance(self, now: float) -> Transition | None:
        """Apply timers up to ``now``. An undecided half-open stay ends in open, dated at the instant at which it was due."""
        return self._expire(self._latest(now))

    def command(  # noqa: PLR0911 - one return per verb
        self, verb: Verb, now: float, *, actor: str, reason: str = "", until: float | None = None
    ) -> Transition | None:
        """Apply an operator's command.

        Args:
            verb: ``force_open`` (until the next command, or with ``until`` until then, followed by probes), ``close``, ``reset``
                (close and forget the evidence), ``disable``, ``metrics_only``, or ``auto`` (end a command: return to the state of
                the policy's mode).
            now: When the command applies.
            actor: Who commands.
            reason: Why.
            until: See ``force_open``.

        Returns:
            The transition to publish, or None if nothing changed.

        Raises:
            SwitchgearError: The verb is ``set_policy``. Call :meth:`set_policy`, which takes the policy.
        """
        now = self._latest(now)
        cause = Cause(rule="command", actor=actor, reason=reason or None)
        if verb == "reset":
            self._evidence.clear()
            self.attempt, self._retry_at = 0, None
            if self.state == "closed":
                self._rejected = 0
                self._settle()
                return self._stay(now, cause)
            return self._move("closed", now, cause)
        if verb == "force_open":
            if until is None:
                return self._move_if_other("forced_open", now, cause)
            if self.state == "open":
                self.open_until = until
                return self._stay(now, cause)
            return self._move("open", now, cause, open_until=until)
        if verb == "auto":
            commanded = self.cause is not None and self.cause.rule == "command"
            if self.state in ("closed", "half_open") or (self.state == "open" and not commanded):
                return None
            return self._move_if_other(STATE_OF_MODE[self.policy.mode], now, cause)
        target = _STATE_OF_VERB.get(verb)
        if target is None:
            raise SwitchgearError(f"The command {verb} needs a policy.", hint="Call set_policy with it.")
        return self._move_if_other(target, now, cause)

    def transition_to(
        self, state: CircuitState, now: float, *, actor: str, reason: str = "", open_for_s: float | None = None
    ) -> Transition | None:
        """Move to a state directly. If it is the present state, nothing changes.

        Args:
            state: The new state.
            now: When it applies.
            actor: Who commands.
            reason: Why.
            open_for_s: For ``open``: seconds until the first probe, in place of the policy's wait.

        Raises:
            IllegalTransitionError: The table of transitions does not have this change.
        """
        now = self._latest(now)
        self._expire(now)
        cause = Cause(rule="command", actor=actor, reason=reason or None)
        return self._move_if_other(state, now, cause, None if open_for_s is None else now + open_for_s)

    def set_policy(self, policy: BreakerPolicy, now: float) -> Transition | None:
        """Go on under another policy. State, wait and probes stay, and the evidence that still has a meaning.

        Returns:
            The transition after a change of ``mode``, or None. A state that an operator commanded stays.
        """
        now = self._latest(now)
        old, self.policy = self.policy.mode, policy
        self._evidence.adapt(policy, now)
        self._settle()
        return self._follow_mode(old, now)

    def snapshot(self) -> bytes:
        """Return the whole circuit as compact versioned bytes."""
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
        """Return the circuit that :meth:`snapshot` saved. Another policy than before applies as with :meth:`set_policy`.

        Raises:
            SnapshotError: The bytes are not a snapshot, are of a newer format, or hold a state that no circuit can be in.
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
    return None if moment is None else float(moment)  # an int would be restored as a float, and its bytes would differ


_STATE_OF_VERB: Final[dict[Verb, CircuitState]] = {
    "close": "closed",
    "disable": "disabled",
    "metrics_only": "metrics_only",
}


IDLE_S: Final = 3_600.0
"""Seconds without a result after which a closed circuit without evidence may retire. It must not retire at once: the failure of a
slow call that is still running would be lost."""
STALE_S: Final = 86_400.0
"""The same for a closed circuit with an empty window that still has a run of failures."""


def may_retire(breaker: Breaker, now: float, idle_s: float = IDLE_S) -> bool:
    """Return whether forgetting a circuit changes no decision. It is False for an open, commanded or counting circuit.

    Args:
        breaker: The circuit. Its owner holds the lock.
        now: Seconds on the breaker's clock.
        idle_s: Seconds without a result.
    """
    quiet_s = now - breaker.last_seen
    return quiet_s >= idle_s and (breaker.is_idle(now) or (quiet_s >= STALE_S and breaker.is_stale(now)))
