"""The player of ``local`` scenarios: it plays the steps on one Breaker, and compares the results with the expected ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from switchgear.breaker import (
    Breaker,
    BreakerPermit,
    BreakerRejection,
    IllegalTransitionError,
    Result,
    ResultKind,
    Transition,
)
from tests.acceptance.policy_of import policy_of

OUTCOMES = {
    "success": ResultKind.SUCCESS,
    "ok": ResultKind.SUCCESS,
    "failure": ResultKind.FAILURE,
    "error": ResultKind.FAILURE,
    "timeout": ResultKind.FAILURE,
    "excluded": ResultKind.IGNORED,
    "ignored": ResultKind.IGNORED,
}
COUNTS = {
    "failed": lambda counts: counts.failed,
    "ok": lambda counts: counts.calls - counts.failed,
    "total": lambda counts: counts.calls,
    "slow": lambda counts: counts.slow,
    "excluded": lambda counts: counts.ignored,
    "ignored": lambda counts: counts.ignored,
    "not_permitted": lambda counts: counts.rejected,
    "streak": lambda counts: counts.consecutive_failures,
    "wasted_tokens": lambda counts: counts.wasted_tokens,
}
FIELDS = {
    "remaining": lambda breaker: breaker.remaining_probes,
    "share": lambda breaker: breaker.admitted_share,
    "attempt": lambda breaker: breaker.attempt,
    "cause": lambda breaker: breaker.cause and breaker.cause.rule,
}
EVENT_OF_STATE = {"open": "opened", "closed": "closed", "half_open": "half_opened"}
LETTERS = {"F": "failure", "S": "success", "I": "ignored"}
"""Outcomes of ``calls``."""
ACTION_KEYS = {
    "t", "op", "id", "outcome", "outcomes", "times", "every_s", "ms", "overdue_ms", "to", "for_s", "by", "tokens", "retry_after_s", "until", "note"
}  # fmt: skip


class LocalPlayer:
    """A breaker, the open permits by name, and the events so far."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.classify = config.get("classify", {})
        self.policy = policy_of(config)
        self.breaker = Breaker("scenario", self.policy, 0.0)
        self.permits: dict[str, BreakerPermit | BreakerRejection] = {}
        self.events: Counter[str] = Counter()

    def play(self, step: dict[str, Any]) -> None:
        now = float(step["t"])
        self._noted(lambda: self.breaker.advance(now))
        seen: dict[str, Any] = {}
        operation = getattr(self, f"op_{step['op']}", None)
        assert operation is not None, f"the adapter does not know the operation {step['op']}"
        now = operation(now, step, seen) or now
        self._compare(now, step, seen)

    # ---- operations

    def op_calls(self, now, step, seen):
        """Make one call after the other, ``every_s`` apart. Return when the last one was made."""
        at, seen["permitted"] = now, 0
        for number, letter in enumerate(step["outcomes"] * step.get("times", 1)):
            at = now + number * step.get("every_s", 0)
            self._noted(lambda at=at: self.breaker.advance(at))
            self.op_call(at, step | {"outcome": LETTERS[letter]}, seen)
            seen["permitted"] += seen["permit"]
        return at

    def op_call(self, now, step, seen):
        permit = self._acquire(now, seen)
        if isinstance(permit, BreakerPermit):
            self._noted(lambda: self.breaker.record(now, self._result(step), permit))

    def op_acquire(self, now, step, seen):
        self.permits[step.get("id", "")] = self._acquire(now, seen)

    op_allow = op_acquire

    def op_record(self, now, step, seen):
        permit = self.permits.pop(step.get("id", ""), None)
        assert not isinstance(permit, BreakerRejection), "a refused call has no result"
        self._noted(lambda: self.breaker.record(now, self._result(step), permit))

    def op_overdue(self, now, step, seen):
        """Report that a call still runs, after ``ms``."""
        result = Result(ResultKind.OVERDUE, duration_ms=float(step["ms"]))
        self._noted(lambda: self.breaker.record(now, result, self.permits[step["id"]]))

    def op_release(self, now, step, seen):
        permit = self.permits.pop(step["id"])
        assert isinstance(permit, BreakerPermit), "a refused call has nothing to release"
        self.breaker.release(permit, now)

    def op_set(self, now, step, seen):
        until = step.get("for_s", step["until"] - now if "until" in step else None)
        try:
            self._noted(lambda: self.breaker.transition_to(step["to"], now, actor="scenario", open_for_s=until))
        except IllegalTransitionError:
            seen["error"] = "illegal_transition"

    def op_reset(self, now, step, seen):
        self.events["reset"] += 1
        self._noted(lambda: self.breaker.command("reset", now, actor="scenario"))

    def op_trip(self, now, step, seen):
        self._noted(lambda: self.breaker.transition_to("open", now, actor="scenario", open_for_s=step.get("for_s")))

    op_open = op_trip

    def op_close(self, now, step, seen):
        self._noted(lambda: self.breaker.command("close", now, actor="scenario"))

    def op_check(self, now, step, seen):
        """Do nothing more: the timers are applied before each step."""

    # ---- inside

    def _acquire(self, now: float, seen: dict[str, Any]) -> BreakerPermit | BreakerRejection:
        answer: BreakerPermit | BreakerRejection = self._noted(lambda: self.breaker.try_acquire(now))
        seen["permit"] = isinstance(answer, BreakerPermit)
        if isinstance(answer, BreakerRejection):
            self.events["not_permitted"] += 1
            seen["retry_after"] = answer.retry_after_s
        return answer

    def _result(self, step: dict[str, Any]) -> Result:
        named = step["outcome"]
        outcome = OUTCOMES[self.classify.get(named, named)]
        return Result(
            kind=outcome,
            duration_ms=float(step.get("ms", 0)),
            tokens=step.get("tokens", 0),
            reporter=step.get("by", ""),
            retry_after_s=step.get("retry_after_s"),
            overdue_ms=step.get("overdue_ms"),
        )

    def _noted(self, act: Callable[[], Any]) -> Any:
        generation = self.breaker.generation
        transition = act()
        changes = self.breaker.generation - generation
        assert changes <= 1
        if changes:
            self.events["state_change"] += 1
            self.events[EVENT_OF_STATE.get(self.breaker.state, self.breaker.state)] += 1
        elif isinstance(transition, Transition) and self.breaker.state == "metrics_only":
            self.events["would_open"] += 1
            self.events[f"{transition.cause.rule}_exceeded"] += 1
        return transition

    def _compare(self, now: float, step: dict[str, Any], seen: dict[str, Any]) -> None:
        counts = self.breaker.counts(now)
        for key, expected in step.items():
            if key in ACTION_KEYS:
                continue
            if key == "state":
                self._compare_state(now, step["op"], expected)
            elif key in ("rate", "slow_rate"):
                self._compare_rate(counts.failed if key == "rate" else counts.slow, counts.calls, expected)
            elif key == "counts":
                assert {name: COUNTS[name](counts) for name in expected} == expected
            elif key == "events":
                assert {name: self.events[name] for name in expected} == expected
            elif key in FIELDS:
                assert FIELDS[key](self.breaker) == expected
            elif key == "retry_after":
                assert seen.get(key) == pytest.approx(expected)
            else:
                assert key in ("permit", "permitted", "error", "raises"), (
                    f"the adapter does not know the expectation {key}"
                )
                assert seen.get(key, False if key == "raises" else None) == expected, key
        if "error" in seen:
            assert "error" in step, seen["error"]

    def _compare_rate(self, number: int, calls: int, expected: float | None) -> None:
        if expected is None:  # unknown: too few calls to judge
            assert calls < self.policy.minimum_number_of_calls
        else:
            assert (number / calls if calls else 0) == pytest.approx(expected)

    def _compare_state(self, now: float, operation: str, expected: str) -> None:
        until = self.breaker.open_until
        if operation == "check" and expected == "half_open" and self.breaker.state == "open":
            # Nothing happens at open_until but that the next caller is let through: half-open in waiting.
            assert until is not None
            assert now >= until
            return
        assert self.breaker.state == expected
