"""The breaker: one circuit, folded from results, timers and commands. It does no I/O, holds no lock and reads no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.breaker import snapshot
from switchgear.breaker.fields import CircuitFields
from switchgear.breaker.half_open import HalfOpen
from switchgear.breaker.ramp import Ramp
from switchgear.breaker.states import (
    COUNTING,
    IDLE_S,
    PASSING,
    STALE_S,
    STATE_OF_MODE,
    STATE_OF_VERB,
    IllegalTransitionError,
    outage_began,
)
from switchgear.breaker.states import open_until as end_of_wait
from switchgear.breaker.steady import Steady, steady
from switchgear.breaker.values import (
    BreakerPermit,
    BreakerRejection,
    ProbeLease,
    Result,
    ResultKind,
    Transition,
)
from switchgear_schemas.cause import Cause, Counts
from switchgear_schemas.enums import CircuitState, Verb

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy

_SUCCESS: Final = ResultKind.SUCCESS
_IGNORED: Final = ResultKind.IGNORED
_FAILURE: Final = ResultKind.FAILURE
_OVERDUE: Final = ResultKind.OVERDUE


class Breaker(CircuitFields):
    """The state machine of one circuit.

    Times are float seconds of one clock, monotonic or since 1970. If ``now`` goes backwards, the latest instant counts on, until
    :meth:`set_back`. Folding the same calls gives the same state to the byte. A breaker is not thread-safe: its owner serialises calls.

    A probe is permitted at ``now >= open_until``. Rules compare by ``>=`` and are evaluated on every result. A call is slow if it
    took *more* than the threshold. An ignored result changes nothing, unless it names a rejected credential.

    A call that takes too long can be reported as overdue before it ends. It is then a slow call of the window, and its end counts it
    no second time. An overdue probe has decided.

    Attributes:
        policy: The policy in force. Change it with :meth:`set_policy`.
        state: The state as of the last call. Call :meth:`advance` first to apply timers.
        previous_state: The state before. None until the first change.
        generation: Number of changes of state so far.
        attempt: Opens in a row without a close between them. A close by a ramp counts once the ramp is over.
        admitted_share: Share of the calls that are permitted while closed. Below 1 during a ramp.
        clock: The latest instant at which something was recorded, or asked and not simply permitted.
        open_until: When the first probe is permitted. A half-open circuit keeps it.
        on_move: Called with every change of state, in the thread that causes it, under the owner's lock.
        quiet: The permit of a closed circuit in which one more success would change no decision, else None. You may read it
            without the owner's lock. While it stays the same object, you may leave out both the question and the report of a
            success: they change only the number of calls in :meth:`counts`. With ``minimum_tools``, of noted tools only.
    """

    # ---- deciding in one process

    def try_acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        """Ask whether a call may be made now. It never raises.

        An open circuit whose wait is over becomes half-open here. The first callers get the probes.
        """
        if self._pass is not None:
            return self._pass
        if self.state in PASSING:  # a fixed window: the permit names its instant
            self.advance(now)
            ramp = self._ramp
            if ramp is not None and not ramp.admits_next():
                cause = Cause("recovery_ramp", ramp.share, reason=ramp.reason)
                return self._reject(ramp.rest_of_step_s(self.policy, self.clock), cause)
            return BreakerPermit(self.circuit_id, self.generation, None, self.clock)
        if self.state == "open" and self.open_until is not None and now < self.open_until:
            return self._reject(self.open_until - now)
        self.advance(now)
        self._end_wait()
        if self.remaining_probes > 0:
            assert self._half_open is not None
            return BreakerPermit(self.circuit_id, self.generation, self._half_open.lease(self.generation))
        return self._reject(self.retry_after_s(now))

    def _reject(self, retry_after_s: float | None, cause: Cause | None = None) -> BreakerRejection:
        self._rejected += 1
        return BreakerRejection(self.circuit_id, self.state, self.generation, retry_after_s, cause or self.cause)

    def would_refuse(self, now: float) -> bool:
        """Return whether :meth:`try_acquire` would refuse at ``now``. It takes no probe. During a ramp it is False."""
        if self.open_at(now) is not None:
            return True
        return self.state == "forced_open" or (self._half_open is not None and self.remaining_probes == 0)

    def open_at(self, now: float) -> tuple[float, float] | None:
        """Apply timers, and return since when and until when calls are refused. Return None if no such instant is known."""
        self.advance(now)
        until = self.open_until
        return (self.changed_at, until) if self.state == "open" and until is not None and now < until else None

    def release(self, permit: BreakerPermit, now: float) -> None:
        """Give a permit back, because the call was not made."""
        self.advance(now)
        if self._half_open is not None and permit.generation == self.generation:
            self._half_open.give_back(permit.lease_id)

    def abandon_probes(self) -> None:
        """Drop the probes that are out, because their holders are gone. Others may go in their place."""
        if self._half_open is not None:
            self._half_open.leases.clear()

    def record(self, now: float, result: Result, permit: BreakerPermit | None = None) -> Transition | None:
        """Count a call that finished at ``now``, or is overdue then. Return the transition that followed, if any.

        The result is dropped if its permit is used, of an older generation or of an earlier fixed window. Without a permit it counts
        only in a closed circuit.
        """
        if permit is None or permit is self._pass:  # the permit of a closed circuit leaves nothing to check
            return self.record_event(now, result, None, None)
        return self.record_event(now, result, permit.generation, permit.lease_id, permit.started_at)

    def note_tools(self, names: Iterable[str]) -> None:
        """Note that these tools were called, also if no result of them is recorded. For the circuit of a family."""
        self._evidence.note_tools(names)

    # ---- deciding for the fleet

    @property
    def leases(self) -> tuple[ProbeLease, ...]:
        """The probes that are out. All of them end with the half-open stay."""
        if self._half_open is None:
            return ()
        end = self._half_open_until()
        return tuple(ProbeLease(lease_id, emitter, end) for lease_id, emitter in self._half_open.leases)

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
        moved = self.advance(now)
        moved = self._end_wait() or moved
        holders = [lease.emitter_id for lease in self.leases]
        if self._half_open is None or emitter_id in holders or self.remaining_probes == 0:
            return moved
        self._half_open.lease(self.generation, emitter_id)
        granted = Cause(rule="lease_granted", actor=emitter_id)
        return moved or self._transition(self.state, granted, self.counts(self.clock))

    def end_wait_early(self, now: float, cause: Cause) -> Transition | None:
        """Permit a probe of an open circuit at once. Return None, unchanged, if an operator opened it or its wait is over."""
        now = max(now, self.clock)
        commanded = self.cause is not None and self.cause.rule == "command"
        if self.state != "open" or commanded or self.open_until is None or self.open_until <= now:
            return None
        self.clock = self.open_until = now
        return self._stay(cause)

    def record_event(  # noqa: PLR0911 - one return per reason not to count
        self,
        now: float,
        result: Result,
        generation: int | None,
        lease_id: str | None,
        started_at: float | None = None,
    ) -> Transition | None:
        """Count a call that a process of the fleet reports. Return the transition that followed, if any.

        Args:
            now: The time of the event in the log.
            result: How the call ended, or that it is overdue.
            generation: The circuit's generation when it permitted the call. An older generation drops the result. None means that
                the caller has no guard: its calls count in a closed circuit, and like a probe if they began after the wait.
            lease_id: The probe's lease. In a half-open circuit nothing counts without a lease that is out.
            started_at: When the call began, by the same clock.
        """
        if self.state in COUNTING:
            if now > self.clock:  # noqa: PLR1730 - max() is slower
                self.clock = now
            climbed = None if self._ramp is None else self._climb()
            if generation is not None and generation < self.generation:
                return climbed
            fixed = self._pass is None and self._evidence.window.fixed
            if fixed and started_at is not None and self._evidence.window.began_earlier(started_at, self.clock):
                return climbed
            if self._add(result):
                return self._judge() or climbed
            if self.quiet is None and self._evidence.clean:
                self.quiet = self._pass
            return climbed
        moved = self.advance(now)
        goes_on = result.kind is _OVERDUE and not self._evidence.late(result.duration_ms)
        if generation is None:
            until = self.open_until
            if (
                goes_on
                or until is None
                or started_at is None
                or started_at < until
                or result.kind is _IGNORED
                or result.weak
            ):
                return moved
            moved = self._end_wait() or moved
        elif (
            goes_on
            or generation != self.generation
            or self._half_open is None
            or not self._half_open.give_back(lease_id)
        ):
            return moved
        return self._count_probe(result) or moved

    def steady(self) -> Steady | None:
        """Return what holds for successes that :meth:`add_successes` may count. None if one may change a decision."""
        return steady(self._evidence) if self.state == "closed" and self._ramp is None else None

    def add_successes(self, now: float, count: int) -> None:
        """Count successes up to ``now`` for which :meth:`steady` holds."""
        self.clock = max(self.clock, now)
        self._total_calls += count
        self._evidence.add_successes(self.clock, count)

    # ---- both

    def may_retire(self, now: float) -> bool:
        """Return whether forgetting the circuit changes no decision. It is False for an open, commanded or counting circuit."""
        if self.state != STATE_OF_MODE[self.policy.mode] or self.state not in PASSING:
            return False
        if self._ramp is not None and not self._ramp.over(self.policy, now):
            return False
        evidence = self._evidence
        needed_s = STALE_S if evidence.cusum else max(IDLE_S, evidence.run_age_s) if evidence.streak else IDLE_S
        return now - self.clock >= needed_s and self.counts(now).calls == 0

    def advance(self, now: float) -> Transition | None:
        """Apply timers up to ``now``. An undecided half-open stay ends in open, dated at the instant at which it was due.

        A ramp goes to the step that is due, by a transition of the same state with the cause ``recovery_ramp`` and the new share.
        """
        if now > self.clock:  # noqa: PLR1730 - max() is slower
            self.clock = now
        if self._ramp is not None:
            return self._climb()
        if self._half_open is None or self.clock < self._half_open_until():
            return None
        limit = float(self.policy.max_wait_duration_in_half_open_state_s)
        cause = Cause(rule="half_open_timeout", value=limit, threshold=limit, sample=self._half_open.finished)
        return self._move("open", cause, at=self._half_open_until())

    def command(
        self, verb: Verb, now: float, *, actor: str, reason: str = "", until: float | None = None
    ) -> Transition | None:
        """Apply an operator's command. Return the transition to publish, or None if nothing changed.

        Args:
            verb: ``force_open`` (until the next command, or with ``until`` until then, followed by probes), ``close``, ``reset``
                (close and forget the evidence), ``disable``, ``metrics_only``, or ``auto`` (end a command: return to the state of
                the policy's mode). Each of them ends a ramp. For ``set_policy`` call :meth:`set_policy`.
            now: When the command applies.
            actor: Who commands.
            reason: Why.
            until: See ``force_open``.
        """
        self.clock = max(now, self.clock)
        cause = Cause(rule="command", actor=actor, reason=reason or None)
        recovering = self._ramp is not None
        if recovering:
            self._ramp, self.attempt = None, 0
            self._settle()
        if verb == "reset" and self.state == "closed":
            self._evidence.clear()
            self._retry_at = None
            self._rejected = 0
            self._settle()
            return self._stay(cause)
        if verb == "force_open" and until is not None:
            if self.state != "open":
                return self._move("open", cause, open_until=until)
            self.open_until = until
            return self._stay(cause)
        if verb == "auto":
            commanded = self.cause is not None and self.cause.rule == "command"
            if self.state in ("closed", "half_open") or (self.state == "open" and not commanded):
                return self._stay(cause) if recovering else None
            return self._move(STATE_OF_MODE[self.policy.mode], cause)
        return self._move(STATE_OF_VERB[verb], cause) or (self._stay(cause) if recovering else None)

    def transition_to(
        self, state: CircuitState, now: float, *, actor: str, reason: str = "", open_for_s: float | None = None
    ) -> Transition | None:
        """Move to a state directly, by a command. If it is the present state, nothing changes.

        ``open_for_s`` is for ``open``: the seconds until the first probe, in place of the policy's wait.

        Raises:
            IllegalTransitionError: The circuit is closed and ``state`` is ``half_open``.
        """
        self.advance(now)
        if self.state == "closed" and state == "half_open":
            raise IllegalTransitionError(self.circuit_id)
        cause = Cause(rule="command", actor=actor, reason=reason or None)
        return self._move(state, cause, open_until=None if open_for_s is None else self.clock + open_for_s)

    def set_policy(self, policy: Policy, now: float) -> Transition | None:
        """Go on under another policy. Return the transition after a change of ``mode``, or None.

        State, wait and probes stay, and the evidence as far as :func:`~switchgear.breaker.snapshot.load_evidence` keeps it. A state
        that an operator commanded stays.
        """
        self.clock = max(now, self.clock)
        old, self.policy = self.policy.mode, policy
        self._evidence = snapshot.load_evidence(snapshot.save_evidence(self._evidence), policy, self.clock)
        self._keep_ramp(self._ramp)
        return self._follow_mode(old)

    @classmethod
    def restore(cls, data: bytes, policy: Policy) -> Breaker:
        """Return the circuit that :meth:`snapshot` saved. Another policy than before applies as with :meth:`set_policy`.

        Raises:
            SnapshotError: The bytes are not a snapshot, are of a newer format, or hold a state that no circuit can be in.
        """
        saved = snapshot.decode(data)
        breaker = cls(saved.circuit_id, policy, saved.clock)
        breaker._load(saved)
        breaker._keep_ramp(saved.ramp)
        breaker._follow_mode(saved.mode)
        return breaker

    # ---- inside

    def _add(self, result: Result) -> bool:
        """Add a result to the evidence. Return whether some rule is breached."""
        kind = result.kind
        if kind is not _SUCCESS:
            if kind is _IGNORED:
                if result.credential and self._evidence.limits.denied:
                    self.quiet = None  # the success of any call ends the row
                    return self._evidence.add_denied(self.clock, result)
                self._evidence.window.add_ignored(self.clock)
                return False
            if kind is _OVERDUE:  # the totals and a ramp count its end
                return self._evidence.add_overdue(self.clock, result)
            self.quiet = None
            self._total_failed += 1
            if result.retry_after_s is not None:
                self._retry_at = max(self._retry_at or 0.0, self.clock + result.retry_after_s)
        self._total_calls += 1
        breached = self._evidence.add(self.clock, result)
        if self._ramp is None:
            return breached
        if not result.weak:
            self._ramp.add(failed=kind is _FAILURE)
        return True

    def _judge(self) -> Transition | None:
        cause = None
        if self._ramp is not None:
            cause = self._evidence.confirmed(self._ramp.breach(self.policy), self.policy)
        cause = cause or self._evidence.breach(self.policy, self.clock)
        if cause is None:
            return None
        if self.state != "metrics_only":
            return self._move("open", cause)
        if self.open_until is not None and self.clock < self.open_until:
            return None  # an enforcing circuit would be open now
        self._begin_wait(self.clock)
        return self._stay(msgspec.structs.replace(cause, reason="would have opened"))

    def _count_probe(self, result: Result) -> Transition | None:
        half_open = self._half_open
        if half_open is None:
            return None
        self._add(result)
        kind, evidence = result.kind, self._evidence
        if kind is _IGNORED:
            half_open.ignored += 1
        elif kind is _OVERDUE:
            self._total_calls += 1  # its lease has ended, so its end is dropped
            half_open.add(failed=False, slow=True)
        else:
            slow = result.duration_ms > evidence.limits.slow_ms or evidence.late(result.overdue_ms)
            half_open.add(failed=kind is _FAILURE, slow=slow)
        verdict = half_open.verdict(self.policy)
        if verdict is None:
            return None
        closes, cause = verdict
        return self._move("closed" if closes else "open", cause)

    def _half_open_until(self) -> float:
        return self.changed_at + self.policy.max_wait_duration_in_half_open_state_s

    def _begin_wait(self, at: float) -> None:
        self.attempt += 1
        self.open_until = end_of_wait(self.circuit_id, self.attempt, self.policy, at, self._retry_at)

    def _end_wait(self) -> Transition | None:
        if self.state != "open" or self.open_until is None or self.clock < self.open_until:
            return None
        return self._move("half_open", Cause(rule="wait_elapsed"))

    def _follow_mode(self, old: str) -> Transition | None:
        mode = self.policy.mode
        if mode == old or (mode == "enforce" and self.state != old):
            return None
        return self._move(STATE_OF_MODE[mode], Cause(rule="policy", reason=f"mode {mode}"))

    def _move(
        self, state: CircuitState, cause: Cause, *, at: float | None = None, open_until: float | None = None
    ) -> Transition | None:
        if state == self.state:
            return None
        counts, at = self.counts(self.clock), self.clock if at is None else at
        self.previous_state, self.state = self.state, state
        self.generation += 1
        self.changed_at = at
        self.cause = cause
        self._rejected = 0
        ramp, self._half_open, self._ramp = self._ramp, None, None
        if state == "open":
            self._retry_at = self._retry_at_of_outage(at, ramp)
            self._begin_wait(at)
            self.open_until = self.open_until if open_until is None else open_until
        else:
            self._evidence.clear()
            if state == "half_open":
                self._half_open = HalfOpen()
                self.open_until = at if self.open_until is None else self.open_until
            else:
                rate_limited = self._retry_at is not None
                self.open_until = self._retry_at = None
                if self.previous_state == "half_open" and state == "closed" and cause.rule != "command":
                    self._ramp = Ramp.begin(self.policy, at, rate_limited=rate_limited)
                if self._ramp is not None:
                    self.cause = cause = msgspec.structs.replace(cause, reason=self._ramp.reason)
                self.attempt = 0 if self._ramp is None else self.attempt
        self._settle()
        moved = self._transition(self.previous_state, cause, counts)
        if self.on_move is not None:
            self.on_move(moved)
        return moved

    def _retry_at_of_outage(self, at: float, ramp: Ramp | None) -> float | None:
        """Return ``retry_at`` if the tool asked to wait in the outage in which the circuit opens now."""
        if ramp is not None and ramp.rate_limited:  # a recovery that fails belongs to the outage
            return self._retry_at or at
        earlier = self.previous_state != "half_open" and (self._retry_at or 0.0) < outage_began(self.policy, at)
        return None if earlier else self._retry_at

    def _climb(self) -> Transition | None:
        assert self._ramp is not None
        share, reason = self._ramp.climb(self.policy, self.clock), self._ramp.reason
        if share is None:
            return None
        at = self._ramp.began_step_at(self.policy)
        if share == 1:
            self._ramp, self.attempt = None, 0
        self._settle()
        return msgspec.structs.replace(self._stay(Cause("recovery_ramp", share, reason=reason)), at=at)

    def _keep_ramp(self, ramp: Ramp | None) -> None:
        """Go on with a ramp under a policy that may be another one."""
        self._ramp = None if ramp is None else ramp.follow(self.policy)
        self.attempt = self.attempt if ramp is None or self._ramp is not None else 0
        self._settle()

    def _stay(self, cause: Cause) -> Transition:
        self.cause = cause
        return self._transition(self.state, cause, self.counts(self.clock))

    def _transition(self, previous: CircuitState, cause: Cause, counts: Counts) -> Transition:
        at = self.clock if previous == self.state else self.changed_at
        return Transition(
            self.circuit_id, previous, self.state, self.generation, at, cause, self.open_until, self.attempt, counts
        )
