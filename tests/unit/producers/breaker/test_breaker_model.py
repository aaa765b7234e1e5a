"""Hypothesis drives a Breaker and the oracle through the same calls, and compares everything public."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy, Cusum
from tests.unit.producers.breaker.oracle import Oracle

CUSUM = Cusum(tolerable_failure_rate=0.2, broken_failure_rate=0.6, calls_between_false_opens=100)
RULES: list[dict[str, Any]] = [
    {"consecutive_failures": 3},
    {"failure_count": 3, "wasted_tokens": 25},
    {"failure_rate_threshold": 0.5, "minimum_number_of_calls": 4, "cusum": CUSUM},
    {
        "failure_rate_threshold": 0.6,
        "slow_call_rate_threshold": 0.5,
        "slow_call_duration_threshold_ms": 10,
        "minimum_number_of_calls": 3,
        "half_open_decision": "rate",
        "permitted_number_of_calls_in_half_open_state": 3,
    },
    {"consecutive_failures": 2, "permitted_number_of_calls_in_half_open_state": 2, "success_threshold_to_close": 3},
    {"cusum": CUSUM},
    {"slow_call_rate_threshold": 0.5, "slow_call_duration_threshold_ms": 10, "minimum_number_of_calls": 3},
    {
        "consecutive_failures": 2,
        "failure_rate_threshold": 1.0,
        "minimum_number_of_calls": 6,
        "half_open_decision": "rate",
        "permitted_number_of_calls_in_half_open_state": 2,
    },
    {"consecutive_failures": 2, "mode": "metrics_only"},
    {"consecutive_failures": 2, "mode": "disabled"},
    {"consecutive_failures": 2, "mode": "forced_open"},
]
WAITS: list[dict[str, Any]] = [
    {"wait_duration_in_open_state_s": 5, "max_wait_duration_in_half_open_state_s": 4},
    {
        "wait_duration_in_open_state_s": 2,
        "backoff_multiplier": 2,
        "max_wait_duration_in_open_state_s": 12,
        "jitter": 0.5,
        "honor_retry_after": False,
        "max_wait_duration_in_half_open_state_s": 7,
    },
]
WINDOWS: list[dict[str, Any]] = [
    {"sliding_window_size": 10, "sliding_window_panes": 10},
    {"sliding_window_size": 6, "sliding_window_panes": 4},
    {"sliding_window_size": 5, "sliding_window_panes": 1},
    {"sliding_window_type": "count", "sliding_window_size": 6},
]
results = st.builds(
    Result,
    kind=st.sampled_from(
        [ResultKind.SUCCESS, ResultKind.FAILURE, ResultKind.FAILURE, ResultKind.IGNORED, ResultKind.OVERDUE]
    ),
    duration_ms=st.sampled_from([0.0, 10.0, 10.5, 50.0]),
    tokens=st.sampled_from([0, 1, 10]),
    reporter=st.sampled_from(["a", "b", "c"]),
    retry_after_s=st.sampled_from([None, None, 1.0, 9.0, 1e6]),
    overdue_ms=st.sampled_from([None, None, 5.0, 10.0, 50.0]),
)


def policy_of(rules: dict[str, Any], wait: dict[str, Any], fixed: dict[str, Any]) -> BreakerPolicy:
    # What makes one call slow stays: taking it over to another policy has tests of its own.
    slow = (
        {} if "slow_call_rate_threshold" in rules else {"slow_call_rate_threshold": 1.0, "minimum_number_of_calls": 6}
    )
    return BreakerPolicy(**{"slow_call_duration_threshold_ms": 10, **slow, **rules}, **wait, **fixed)


class BreakerMachine(RuleBasedStateMachine):
    @initialize(
        rules=st.sampled_from(RULES),
        wait=st.sampled_from(WAITS),
        window=st.sampled_from(WINDOWS),
        reporters=st.sampled_from([1, 2, 3]),
    )
    def start(self, rules, wait, window, reporters):
        self.now = 1000.0
        self.fixed = {**window, "minimum_reporters": reporters}
        self.policy = policy_of(rules, wait, self.fixed)
        self.breaker = Breaker("c", self.policy, self.now)
        self.oracle = Oracle("c", self.policy, self.now)
        self.held: list[BreakerPermit] = []
        self.old_leases: list[str] = []

    @rule(seconds=st.sampled_from([0.125, 0.5, 1.0, 2.0, 5.0, 30.0, -0.25, -4.0]))
    def let_time_pass(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.breaker.state == "open")
    @rule(early=st.sampled_from([0.0, 0.0, 0.125]))
    def wait_until_a_probe_may_go(self, early):
        self.now = max(self.now, self.breaker.open_until - early)

    @precondition(lambda self: self.breaker.state == "open")
    @rule(results=st.lists(results, min_size=1, max_size=4))
    def wait_and_probe(self, results):
        self.now = max(self.now, self.breaker.open_until)
        for result in results:
            permit = self._acquire()
            if permit is not None:
                self._finish(permit, result)

    @precondition(lambda self: self.breaker.state == "half_open")
    @rule(early=st.sampled_from([0.0, 0.0, 0.125]))
    def wait_for_the_end_of_half_open(self, early):
        stay = self.policy.max_wait_duration_in_half_open_state_s
        self.now = max(self.now, self.breaker.changed_at + stay - early)

    @precondition(lambda self: self.breaker.state == "half_open")
    @rule(count=st.integers(1, 12))
    def probe_with_ignored_outcomes(self, count):
        for _ in range(count):
            permit = self._acquire()
            if permit is not None:
                self._finish(permit, Result(ResultKind.IGNORED))

    @rule(seconds=st.sampled_from([0.0, 0.2, 3.0]))
    def advance(self, seconds):
        self.breaker.advance(self.now + seconds)
        self.oracle.advance(self.now + seconds)

    @rule(result=results, repeat=st.integers(1, 4))
    def call(self, result, repeat):
        for _ in range(repeat):
            permit = self._acquire()
            if permit is not None:
                self._finish(permit, result)

    @rule(count=st.integers(1, 3))
    def start_calls(self, count):
        for _ in range(count):
            permit = self._acquire()
            if permit is not None and len(self.held) < 20:
                self.held.append(permit)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), result=results, twice=st.booleans())
    def finish_a_call(self, data, result, twice):
        permit = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self._finish(permit, result)
        if twice and permit.probe:
            self._finish(permit, result)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), lost=st.booleans())
    def release_or_lose_a_call(self, data, lost):
        permit = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if not lost:
            self.breaker.release(permit, self.now)
            self.oracle.release(self.now, permit.generation, permit.lease_id)

    @rule(result=results)
    def record_without_permit(self, result):
        self.breaker.record(self.now, result)
        self.oracle.record(self.now, result, None)

    @rule(emitter=st.sampled_from(["a", "b", "c"]))
    def ask_for_a_lease(self, emitter):
        self.breaker.request_lease(self.now, emitter)
        self.oracle.request_lease(self.now, emitter)
        self.old_leases.extend(lease.lease_id for lease in self.breaker.leases)

    @rule(
        data=st.data(),
        result=results,
        older=st.sampled_from([0, 0, 0, 1, -1, None, None]),
        started=st.sampled_from([None, 0.0, 0.5, 6.0, "open_until", "open_until"]),
    )
    def record_an_event(self, data, result, older, started):
        generation = None if older is None else max(0, self.breaker.generation - older)
        lease = data.draw(st.sampled_from([None, *self.old_leases[-4:]]))
        if started == "open_until":
            started_at = self.breaker.open_until
        else:
            started_at = None if started is None else self.now - started
        self.breaker.record_event(self.now, result, generation=generation, lease_id=lease, started_at=started_at)
        self.oracle.record_event(self.now, result, generation, lease, started_at)

    @rule(
        verb=st.sampled_from(["force_open", "close", "reset", "disable", "metrics_only", "auto", "auto", "auto"]),
        until=st.sampled_from([None, 1.0, 8.0]),
    )
    def command(self, verb, until):
        instant = None if until is None or verb != "force_open" else self.now + until
        self.breaker.command(verb, self.now, actor="model", until=instant)
        self.oracle.command(verb, self.now, instant)

    @rule(rules=st.sampled_from(RULES), wait=st.sampled_from(WAITS))
    def change_the_policy(self, rules, wait):
        self.policy = policy_of(rules, wait, self.fixed)
        self.breaker.set_policy(self.policy, self.now)
        self.oracle.set_policy(self.policy, self.now)

    @rule()
    def save_and_restore(self):
        saved = self.breaker.snapshot()
        self.breaker = Breaker.restore(saved, self.policy)
        assert self.breaker.snapshot() == saved

    def _acquire(self) -> BreakerPermit | None:
        answer = self.breaker.try_acquire(self.now)
        passes, lease = self.oracle.try_acquire(self.now)
        assert isinstance(answer, BreakerPermit) == passes
        if not isinstance(answer, BreakerPermit):
            assert (answer.state, answer.generation) == (self.oracle.state, self.oracle.generation)
            return None
        assert (answer.generation, answer.lease_id) == (self.oracle.generation, lease)
        return answer

    def _finish(self, permit: BreakerPermit, result: Result) -> None:
        transition = self.breaker.record(self.now, result, permit)
        generation = self.oracle.generation
        self.oracle.record(self.now, result, (permit.generation, permit.lease_id, permit.started_at))
        if self.oracle.generation > generation:
            assert transition is not None

    @invariant()
    def nothing_differs(self):
        if not hasattr(self, "breaker"):
            return
        breaker = self.breaker
        assert {
            "state": breaker.state,
            "generation": breaker.generation,
            "attempt": breaker.attempt,
            "changed_at": breaker.changed_at,
            "open_until": breaker.open_until,
            "leases": [(lease.lease_id, lease.emitter_id) for lease in breaker.leases],
            "counts": msgspec.structs.asdict(breaker.counts(self.oracle.clock)),
        } == self.oracle.seen()
        if self.oracle.rule and breaker.cause is not None and breaker.cause.rule in _OPENING:
            assert breaker.cause.rule in self.oracle.rule.split("|")

    @invariant()
    def probes_are_bounded(self):
        if hasattr(self, "breaker"):
            # A policy may shrink the permits while probes are out: they are honoured, no more are handed out.
            assert len(self.breaker.leases) <= 3


_OPENING = {"consecutive_failures", "failure_count", "failure_rate", "slow_call_rate", "wasted_tokens", "cusum"}
TestBreakerAgreesWithTheOracle = BreakerMachine.TestCase
