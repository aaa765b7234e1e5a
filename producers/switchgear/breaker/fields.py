"""The fields of a circuit, and what needs no decision: its counts, its snapshot, and a clock that was ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switchgear.breaker import snapshot
from switchgear.breaker.evidence import Evidence
from switchgear.breaker.half_open import HalfOpen
from switchgear.breaker.ramp import Ramp
from switchgear.breaker.snapshot import Saved
from switchgear.breaker.states import PASSING, STATE_OF_MODE, STATES
from switchgear.breaker.values import BreakerPermit, Transition
from switchgear_schemas.cause import Cause, Counts
from switchgear_schemas.enums import CircuitState

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy


class CircuitFields:
    """What a circuit holds. :class:`~switchgear.breaker.Breaker` says what the public fields mean, and alone changes them."""

    def __init__(self, circuit_id: str, policy: Policy, now: float) -> None:
        self.circuit_id = circuit_id
        self.policy = policy
        self.state: CircuitState = STATE_OF_MODE[policy.mode]
        self.previous_state: CircuitState | None = None
        self.generation = 0
        self.attempt = 0
        self.clock = now
        self.changed_at = now
        self.open_until: float | None = None
        self.cause: Cause | None = None
        self.on_move: Callable[[Transition], None] | None = None
        self._retry_at: float | None = None
        self._rejected = 0
        self._total_calls = 0
        self._total_failed = 0
        self._half_open: HalfOpen | None = None
        self._ramp: Ramp | None = None
        self._evidence = Evidence(policy, now)
        self._pass: BreakerPermit | None
        self.quiet: BreakerPermit | None
        self.admitted_share: float
        self._settle()

    def counts(self, now: float) -> Counts:
        """Return the counts of the window at ``now``. An open circuit has those that opened it, and the calls rejected since."""
        now = max(now, self.clock)
        return self._evidence.counts(now, self._rejected, self._total_calls, self._total_failed)

    @property
    def late_ms(self) -> float:
        """After how many milliseconds a call is overdue. It is infinite if the policy has no rule for slow calls."""
        return self._evidence.limits.late_ms

    def retry_after_s(self, now: float) -> float | None:
        """Return the seconds until the first probe, or None if that is not known. Only an open circuit knows it."""
        if self.state != "open" or self.open_until is None:
            return None
        return max(0.0, self.open_until - max(now, self.clock))

    def set_back(self, now: float) -> bool:
        """Go back to ``now``, because the clock was ahead until here. It forgets the evidence: nobody knows when it came.

        What is dated after ``now`` moves back with the clock: the last change and the wait that followed it, the steps of a ramp, and
        the wait that the tool asked for. An end that an operator named stays.

        Returns:
            Whether readers hold instants that are wrong now.
        """
        ahead = self.clock - now
        if ahead <= 0:
            return False
        self.clock = now
        moved = self.changed_at > now
        if moved:
            self.changed_at = now
            named = self.state == "open" and self.cause is not None and self.cause.rule == "command"
            if self.open_until is not None and not named:
                self.open_until = max(now, self.open_until - ahead)
        if self._retry_at is not None and self._retry_at > now:
            self._retry_at = max(now, self._retry_at - ahead)
        if self._ramp is not None and self._ramp.began > now:
            self._ramp.began = max(0.0, self._ramp.began - ahead)
        self._evidence = Evidence(self.policy, now)
        self._settle()
        return moved

    def snapshot(self) -> bytes:
        """Return the whole circuit as compact versioned bytes."""
        cause, cause_details, cause_tools = snapshot.save_cause(self.cause)
        return snapshot.encode(
            Saved(
                format=snapshot.FORMAT,
                circuit_id=self.circuit_id,
                state=STATES.index(self.state),
                previous_state=None if self.previous_state is None else STATES.index(self.previous_state),
                mode=self.policy.mode,
                generation=self.generation,
                attempt=self.attempt,
                changed_at=self.changed_at,
                open_until=self.open_until,
                clock=self.clock,
                retry_at=self._retry_at,
                rejected=self._rejected,
                total_calls=self._total_calls,
                total_failed=self._total_failed,
                cause=cause,
                half_open=self._half_open,
                evidence=snapshot.save_evidence(self._evidence),
                cause_details=cause_details,
                cause_tools=cause_tools,
                ramp=self._ramp,
            )
        )

    def _load(self, saved: Saved) -> None:
        """Take the fields of a snapshot, except the ramp."""
        self.state = STATES[saved.state]
        self.previous_state = None if saved.previous_state is None else STATES[saved.previous_state]
        self.generation, self.attempt = saved.generation, saved.attempt
        self.changed_at, self.open_until = saved.changed_at, saved.open_until
        self._retry_at, self._rejected = saved.retry_at, saved.rejected
        self._total_calls, self._total_failed = saved.total_calls, saved.total_failed
        self.cause = snapshot.load_cause(saved)
        self._half_open = saved.half_open
        self._evidence = snapshot.load_evidence(saved.evidence, self.policy, saved.clock)

    def _settle(self) -> None:
        """After a change of state, policy or evidence, prepare the answers for calls that need no decision."""
        self.admitted_share = 1.0 if self._ramp is None else self._ramp.share
        passes = self.state in PASSING and not self._evidence.window.fixed and self._ramp is None
        self._pass = BreakerPermit(self.circuit_id, self.generation) if passes else None
        self.quiet = self._pass if self._evidence.clean or self.state == "disabled" else None
