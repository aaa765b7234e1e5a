"""What a circuit remembers, and how results and timers change its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from switchgear.breaker.evidence import Evidence
from switchgear.breaker.half_open import HalfOpen
from switchgear.breaker.rules import Breach
from switchgear.breaker.states import PASSING, STATE_OF_MODE, check_transition
from switchgear.breaker.states import open_until as end_of_wait
from switchgear.breaker.values import BreakerPermit, Cause, Result, ResultKind, Tally, Transition
from switchgear_schemas.enums import CircuitState

if TYPE_CHECKING:
    from switchgear_schemas.circuit import Counts
    from switchgear_schemas.policy import BreakerPolicy

_IGNORED: Final = ResultKind.IGNORED
_FAILURE: Final = ResultKind.FAILURE
_SUCCESS: Final = ResultKind.SUCCESS
MAX_BACK_S: Final = 3_600.0
"""A clock that goes back by less is out of order: the latest instant counts on. If it goes back by more, the latest instant was
wrong. Otherwise a single corrupt timestamp would hold a circuit in the year that it names."""


class Core:
    """State, evidence and transitions of one circuit. :class:`~switchgear.breaker.breaker.Breaker` adds the questions and commands."""

    __slots__ = (
        "_clock",
        "_evidence",
        "_half_open",
        "_pass",
        "_rejected",
        "_retry_at",
        "_total_calls",
        "_total_failed",
        "attempt",
        "cause",
        "changed_at",
        "circuit_id",
        "generation",
        "on_move",
        "open_until",
        "policy",
        "previous_state",
        "quiet",
        "state",
    )

    def __init__(self, circuit_id: str, policy: BreakerPolicy, now: float) -> None:
        self.circuit_id = circuit_id
        self.policy = policy
        self.state: CircuitState = STATE_OF_MODE[policy.mode]
        self.previous_state: CircuitState | None = None
        self.generation = 0
        self.attempt = 0
        self.changed_at = now
        self.open_until: float | None = None
        self.cause: Cause | None = None
        self.on_move: Callable[[Transition], None] | None = None
        """Called with every change of state, in the thread that causes it, under the owner's lock."""
        self._clock = now
        self._retry_at: float | None = None
        self._rejected = 0
        self._total_calls = 0
        self._total_failed = 0
        self._half_open: HalfOpen | None = None
        self._evidence = Evidence(policy, now)
        self._pass: BreakerPermit | None
        self.quiet: BreakerPermit | None
        """The permit of a closed circuit in which one more success would change no decision, else None.

        You may read it without the owner's lock. While it stays the same object, you may leave out both the question and the report
        of a success: they change only the number of calls in :meth:`counts`.
        """
        self._settle()

    def counts(self, now: float) -> Counts:
        """Return the counts of the window at ``now``. An open circuit has those that opened it, and the calls rejected since."""
        return self.tally(now).for_record()

    def tally(self, now: float) -> Tally:
        """Return the values of :meth:`counts` without importing pydantic."""
        evidence = self._evidence
        window = evidence.window
        window.roll(max(now, self._clock))
        return Tally(
            calls=window.calls,
            failed=window.failed,
            slow=window.slow,
            ignored=window.ignored,
            rejected=self._rejected,
            wasted_tokens=window.tokens,
            consecutive_failures=evidence.streak,
            total_calls=self._total_calls,
            total_failed=self._total_failed,
        )

    def retry_after_s(self, now: float) -> float | None:
        """Return the seconds until the first probe, or None if that is not known. Only an open circuit knows it."""
        if self.state != "open" or self.open_until is None:
            return None
        return max(0.0, self.open_until - max(now, self._clock))

    # ---- for the subclass

    def _latest(self, now: float) -> float:
        if now < self._clock:
            return self._go_back(now)
        self._clock = now
        return now

    def _go_back(self, now: float) -> float:
        """Return the latest instant. If that was wrong, return ``now``, and move everything that it dated."""
        clock = self._clock
        if clock - now <= MAX_BACK_S:
            return clock
        until, changed_at = self.open_until, self.changed_at
        if changed_at > now:
            self.changed_at = now
            if until is not None:
                self.open_until = max(now, now + (until - changed_at))
        self._clock = now
        self._retry_at = None
        self._evidence.rewind(self.policy, now)
        self._settle()
        return now

    def _settle(self) -> None:
        """After a change of state, policy or evidence, prepare the answers for calls that need no decision."""
        passes = self.state in PASSING and not self._evidence.window.fixed
        self._pass = BreakerPermit(self.circuit_id, self.generation) if passes else None
        self.quiet = self._pass if self._evidence.clean or self.state == "disabled" else None

    def _is_void(self, now: float, permit: BreakerPermit) -> bool:
        if permit.generation != self.generation:
            return True
        self._evidence.window.roll(now)
        return permit.window is not None and permit.window != self._evidence.window.stamp

    def _count(self, now: float, result: Result) -> Transition | None:
        outcome = result.kind
        if outcome is not _SUCCESS:
            if outcome == _IGNORED:
                self._evidence.window.add_ignored(now)
                return None
            self.quiet = None
            self._note_failure(now, result)
        self._total_calls += 1
        if self._evidence.add(now, result):
            return self._judge(now)
        if self.quiet is None and outcome is _SUCCESS and self._evidence.clean:
            self.quiet = self._pass
        return None

    def _note_failure(self, now: float, result: Result) -> None:
        self._total_failed += 1
        if result.retry_after_s is not None:
            retry_at = now + result.retry_after_s
            if self._retry_at is None or retry_at > self._retry_at:
                self._retry_at = retry_at

    def _judge(self, now: float) -> Transition | None:
        found = self._evidence.breach()
        if found is None:
            return None
        cause = self._cause_of(*found)
        if self.state != "metrics_only":
            return self._move("open", now, cause)
        if self.open_until is not None and now < self.open_until:
            return None  # an enforcing circuit would be open now
        self.attempt += 1
        self.open_until = end_of_wait(self.circuit_id, self.attempt, self.policy, now, self._retry_at)
        return self._stay(now, cause)

    def _cause_of(self, breach: Breach, reporters: int | None) -> Cause:
        policy, rule = self.policy, breach.rule
        in_time = breach.windowed and policy.sliding_window_type == "time"
        slow_ms = policy.slow_call_duration_threshold_ms if rule == "slow_call_rate" else None
        cusum = policy.cusum if rule == "cusum" else None
        return Cause(
            rule=rule,
            value=float(breach.value),
            threshold=float(breach.threshold),
            sample=breach.sample,
            reporters=reporters,
            reason="would have opened" if self.state == "metrics_only" else None,
            failed=breach.failed,
            window_s=float(policy.sliding_window_size) if in_time else None,
            slow_call_duration_threshold_ms=slow_ms,
            tolerable_failure_rate=None if cusum is None else cusum.tolerable_failure_rate,
            calls_between_false_opens=None if cusum is None else float(cusum.calls_between_false_opens),
        )

    def _probe(self, now: float, result: Result, lease_id: str | None) -> Transition | None:
        half_open = self._half_open
        if half_open is None or not half_open.give_back(lease_id):
            return None
        return self._count_probe(now, half_open, result)

    def _unguarded(self, now: float, result: Result, started_at: float | None) -> Transition | None:
        until = self.open_until
        if until is None or started_at is None or started_at < until or result.kind == _IGNORED:
            return None
        moved = self._end_wait(now)
        half_open = self._half_open
        if half_open is None:
            return moved
        return self._count_probe(now, half_open, result) or moved

    def _count_probe(self, now: float, half_open: HalfOpen, result: Result) -> Transition | None:
        if result.kind == _IGNORED:
            half_open.ignored += 1
            self._evidence.window.add_ignored(now)
        else:
            failed = result.kind == _FAILURE
            self._total_calls += 1
            if failed:
                self._note_failure(now, result)
            self._evidence.add(now, result)
            half_open.add(failed=failed, slow=result.duration_ms > self._evidence.limits.slow_ms)
        verdict = half_open.verdict(self.policy)
        if verdict is None:
            return None
        closes, cause = verdict
        return self._move("closed" if closes else "open", now, cause)

    def _half_open_until(self) -> float:
        return self.changed_at + self.policy.max_wait_duration_in_half_open_state_s

    def _expire(self, now: float) -> Transition | None:
        if self._half_open is None:
            return None
        due = self._half_open_until()
        if now < due:
            return None
        limit = float(self.policy.max_wait_duration_in_half_open_state_s)
        cause = Cause(rule="half_open_timeout", value=limit, threshold=limit, sample=self._half_open.finished)
        return self._move("open", due, cause)

    def _ended_stay(self, now: float) -> tuple[float, float, float] | None:
        """If a half-open stay is over at ``now``, return its end, the end of the wait after it, and the latest instant.

        Return None if the circuit is not half-open, or still is. Nothing changes.
        """
        if self._half_open is None:
            return None
        clock, began, retry_at = self._clock, self.changed_at, self._retry_at
        if clock - now > MAX_BACK_S:
            began, retry_at = min(began, now), None
        else:
            now = max(now, clock)
        due = began + self.policy.max_wait_duration_in_half_open_state_s
        if now < due:
            return None
        return due, end_of_wait(self.circuit_id, self.attempt + 1, self.policy, due, retry_at), now

    def _end_wait(self, now: float) -> Transition | None:
        if self.state != "open" or self.open_until is None or now < self.open_until:
            return None
        return self._move("half_open", now, Cause(rule="wait_elapsed"))

    def _follow_mode(self, old: str, now: float) -> Transition | None:
        mode = self.policy.mode
        if mode == old or (mode == "enforce" and self.state != old):
            return None
        return self._move_if_other(STATE_OF_MODE[mode], now, Cause(rule="policy", reason=f"mode {mode}"))

    def _move_if_other(
        self, state: CircuitState, now: float, cause: Cause, until: float | None = None
    ) -> Transition | None:
        return None if state == self.state else self._move(state, now, cause, open_until=until)

    def _move(self, state: CircuitState, at: float, cause: Cause, *, open_until: float | None = None) -> Transition:
        previous = self.state
        check_transition(self.circuit_id, previous, state)
        tally = self.tally(at)
        self.previous_state, self.state = previous, state
        self.generation += 1
        self.changed_at = at
        self.cause = cause
        self._rejected = 0
        self._half_open = None
        if state == "open":
            self.attempt += 1
            if open_until is None:
                open_until = end_of_wait(self.circuit_id, self.attempt, self.policy, at, self._retry_at)
            self.open_until = open_until
        else:
            self._evidence.clear()
            if state == "half_open":
                self._half_open = HalfOpen()
                self.open_until = at if self.open_until is None else self.open_until
            else:
                self.open_until = None
                self.attempt, self._retry_at = 0, None
        self._settle()
        moved = self._transition(previous, at, cause, tally)
        if self.on_move is not None:
            self.on_move(moved)
        return moved

    def _stay(self, now: float, cause: Cause) -> Transition:
        if cause.rule != "lease_granted":
            self.cause = cause
        return self._transition(self.state, now, cause, self.tally(now))

    def _transition(self, previous: CircuitState, at: float, cause: Cause, tally: Tally) -> Transition:
        return Transition(
            self.circuit_id,
            previous,
            self.state,
            self.generation,
            at,
            cause,
            self.open_until,
            self.attempt,
            tally,
        )
