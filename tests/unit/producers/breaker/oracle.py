"""An oracle for tests: a breaker that keeps every event and counts all of them again each time. It is slow and simple."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import msgspec

from switchgear.breaker import Result, ResultKind
from switchgear.breaker.cusum import solve
from switchgear.breaker.states import STALE_S
from switchgear_schemas.policy import BreakerPolicy

MODE_STATE = {"enforce": "closed", "metrics_only": "metrics_only", "forced_open": "forced_open", "disabled": "disabled"}


@dataclass
class Event:
    at: float
    result: Result
    run_age_s: float
    """After how long without a call the run ended when this one was counted. Another policy doesn't change it later."""
    calls: int = 1
    """How many calls of the window it is. 0: it was one already, when it was overdue. -1: it takes one out of the window."""
    failed: int = 0
    slow: int = 0
    in_run: bool = True
    """Whether it belongs to the run of failures and the sum."""
    beside: Event | None = None
    """The newest call when this one failed in its place among the last calls. Their processes leave the window together."""


def idle_s(event: Event, last: float) -> float:
    """Return the seconds without a call before a call began."""
    return event.at - event.result.duration_ms / 1000 - last


@dataclass
class Probe:
    lease: str
    emitter: str


@dataclass
class Oracle:
    circuit_id: str
    policy: BreakerPolicy
    clock: float
    state: str = ""
    generation: int = 0
    attempt: int = 0
    changed_at: float = 0.0
    open_until: float | None = None
    rejected: int = 0
    total_calls: int = 0
    total_failed: int = 0
    retry_at: float | None = None
    rule: str | None = None
    events: list[Event] = field(default_factory=list)
    cusum_from: int = 0
    out: list[Probe] = field(default_factory=list)
    back: list[Result] = field(default_factory=list)
    serial: int = 0

    def __post_init__(self) -> None:
        self.state = MODE_STATE[self.policy.mode]
        self.changed_at = self.clock

    # ---- the window, counted again

    @property
    def fixed(self) -> bool:
        return self.policy.sliding_window_panes == 1

    def pane(self, at: float) -> int:
        panes = self.policy.sliding_window_panes or 1
        return math.floor(at // (self.policy.sliding_window_size / panes))

    def in_window(self) -> list[Event]:
        counted = [event for event in self.events if event.result.kind != ResultKind.IGNORED and event.calls]
        if self.policy.sliding_window_type == "count":
            return counted[-int(self.policy.sliding_window_size) :]
        return [event for event in counted if self.is_recent(event)]

    def is_recent(self, event: Event) -> bool:
        return self.pane(event.at) > self.pane(self.clock) - (self.policy.sliding_window_panes or 1)

    def is_slow(self, result: Result) -> bool:
        limit = self.policy.slow_call_duration_threshold_ms
        return limit is not None and (result.duration_ms > limit or result.kind == ResultKind.OVERDUE)

    def is_late(self, overdue_ms: float | None) -> bool:
        limit = self.policy.slow_call_duration_threshold_ms
        return overdue_ms is not None and limit is not None and overdue_ms >= limit

    def counts(self) -> dict[str, int]:
        window = self.in_window()
        ignored = [event for event in self.events if event.result.kind == ResultKind.IGNORED]
        if self.policy.sliding_window_type == "time":
            ignored = [event for event in ignored if self.is_recent(event)]
        return {
            "calls": sum(event.calls for event in window),
            "failed": sum(event.failed for event in window),
            "slow": sum(event.slow for event in window),
            "ignored": len(ignored),
            "rejected": self.rejected,
            "wasted_tokens": sum(event.result.tokens for event in window if event.failed),
            "consecutive_failures": self.streak(),
            "total_calls": self.total_calls,
            "total_failed": self.total_failed,
        }

    @property
    def run_age_s(self) -> float:
        return STALE_S if self.policy.sliding_window_type == "count" else self.policy.sliding_window_size

    def streak(self) -> int:
        run, last = 0, 0.0
        for event in self.events:
            if event.result.kind == ResultKind.IGNORED or not event.in_run:
                continue
            if idle_s(event, last) > event.run_age_s:
                run = 0
            run, last = (run + 1 if event.result.kind == ResultKind.FAILURE else 0), event.at
        return 0 if self.clock - last > self.run_age_s else run

    def cusum_breached(self) -> bool:
        if self.policy.cusum is None:
            return False
        detector = solve(self.policy.cusum)
        total, last = 0, 0.0
        for event in self.events[self.cusum_from :]:
            if event.result.kind == ResultKind.IGNORED or not event.in_run:
                continue
            if idle_s(event, last) > STALE_S:
                total = 0
            last = event.at
            if event.result.kind == ResultKind.FAILURE:
                total = min(total + detector.up, detector.height)
            else:
                total = max(total - detector.down, 0)
        return total >= detector.height and self.clock - last <= STALE_S

    def breached_rules(self) -> set[str]:
        policy, counts = self.policy, self.counts()
        rules = set()
        if policy.consecutive_failures and counts["consecutive_failures"] >= policy.consecutive_failures:
            rules.add("consecutive_failures")
        if policy.failure_count and counts["failed"] >= policy.failure_count:
            rules.add("failure_count")
        if counts["calls"] >= policy.minimum_number_of_calls:
            for name, number, threshold in (
                ("failure_rate", counts["failed"], policy.failure_rate_threshold),
                ("slow_call_rate", counts["slow"], policy.slow_call_rate_threshold),
            ):
                if threshold and number / counts["calls"] >= threshold:
                    rules.add(name)
        if policy.wasted_tokens and counts["wasted_tokens"] >= policy.wasted_tokens:
            rules.add("wasted_tokens")
        if self.cusum_breached():
            rules.add("cusum")
        if policy.minimum_reporters > 1:
            window = [event for event in self.in_window() if event.calls > 0]
            also = {event.result.reporter for event in self.events if any(event.beside is one for one in window)}
            bad = {event.result.reporter for event in window if event.failed or event.slow} | also
            if len(bad) < min(policy.minimum_reporters, len({event.result.reporter for event in window} | also)):
                return set()
        return rules

    # ---- moves

    def move(self, state: str, at: float, rule: str, until: float | None = None) -> None:
        self.state, self.changed_at, self.rule = state, at, rule
        self.generation += 1
        self.rejected = 0
        self.out, self.back = [], []
        if state == "open":
            self.attempt += 1
            self.open_until = until if until is not None else self.end_of_wait(at)
            return
        self.events, self.cusum_from = [], 0
        if state == "half_open":
            self.serial = 0
        else:
            self.open_until, self.attempt, self.retry_at = None, 0, None

    def end_of_wait(self, at: float) -> float:
        policy = self.policy
        wait = policy.wait_duration_in_open_state_s * policy.backoff_multiplier ** (self.attempt - 1)
        wait = min(wait, policy.max_wait_duration_in_open_state_s)
        wait *= 1 - policy.jitter * (crc32(f"{self.circuit_id}#{self.attempt}".encode()) / 2**32)
        until = at + wait
        if self.retry_at is not None and policy.honor_retry_after:
            until = max(until, min(self.retry_at, at + policy.max_wait_duration_in_open_state_s))
        return until

    def at(self, now: float) -> None:
        self.clock = max(self.clock, now)

    def expire(self) -> None:
        due = self.changed_at + self.policy.max_wait_duration_in_half_open_state_s
        if self.state == "half_open" and self.clock >= due:
            self.move("open", due, "half_open_timeout")

    def end_wait(self) -> None:
        if self.state == "open" and self.open_until is not None and self.clock >= self.open_until:
            self.move("half_open", self.clock, "wait_elapsed")

    def counted(self) -> list[Result]:
        return [result for result in self.back if result.kind != ResultKind.IGNORED]

    def room(self) -> int:
        permits = self.policy.permitted_number_of_calls_in_half_open_state
        if len(self.back) - len(self.counted()) >= 10 * permits:
            return 0
        if self.policy.half_open_decision == "rate":
            return permits - len(self.out) - len(self.counted())
        good = sum(not self.is_bad(result) for result in self.counted())
        needed = max(permits, self.policy.success_threshold_to_close) - good
        return min(permits, needed) - len(self.out)

    def is_bad(self, result: Result) -> bool:
        return result.kind == ResultKind.FAILURE or self.is_slow(result) or self.is_late(result.overdue_ms)

    def lease(self, emitter: str) -> str:
        self.serial += 1
        probe = Probe(f"{self.generation}.{self.serial}", emitter)
        self.out.append(probe)
        return probe.lease

    # ---- what a breaker does

    def try_acquire(self, now: float) -> tuple[bool, str | None]:
        if self.state in ("closed", "disabled", "metrics_only"):
            if self.fixed:
                self.at(now)
            return True, None
        if self.state == "open" and self.open_until is not None and now < self.open_until:
            self.rejected += 1
            return False, None
        self.at(now)
        self.expire()
        self.end_wait()
        if self.state == "half_open" and self.room() > 0:
            return True, self.lease("")
        self.rejected += 1
        return False, None

    def request_lease(self, now: float, emitter: str) -> None:
        self.at(now)
        self.expire()
        self.end_wait()
        held = any(probe.emitter == emitter for probe in self.out)
        if self.state == "half_open" and not held and self.room() > 0:
            self.lease(emitter)

    def release(self, now: float, generation: int, lease: str | None) -> None:
        self.at(now)
        self.expire()
        if generation == self.generation:
            self.out = [probe for probe in self.out if probe.lease != lease]

    def record(self, now: float, result: Result, permit: tuple[int, str | None, float | None] | None) -> None:
        self.at(now)
        if self.state in ("closed", "metrics_only"):
            if permit is not None:
                generation, _, started_at = permit
                late = started_at is not None and self.pane(started_at) != self.pane(self.clock)
                if generation != self.generation or late:
                    return
            self.count(result)
            return
        self.expire()
        if result.kind == ResultKind.OVERDUE and not self.is_late(result.duration_ms):
            return
        if permit is not None and permit[0] == self.generation:
            self.probe(result, permit[1])

    def record_event(
        self, now: float, result: Result, generation: int | None, lease: str | None, started_at: float | None
    ) -> None:
        self.at(now)
        if self.state in ("closed", "metrics_only"):
            late = self.fixed and started_at is not None and self.pane(started_at) < self.pane(self.clock)
            if not late and (generation is None or generation >= self.generation):
                self.count(result)
            return
        self.expire()
        if result.kind == ResultKind.OVERDUE and not self.is_late(result.duration_ms):
            return
        if generation is not None:
            if generation == self.generation:
                self.probe(result, lease)
            return
        free = self.open_until is not None and started_at is not None and started_at >= self.open_until
        if free and result.kind != ResultKind.IGNORED:
            self.end_wait()
            if self.state == "half_open":
                self.tested(result)

    def add(self, result: Result) -> None:
        """Add what a result changes in the window, in the run and in the sum."""
        failed, slow = int(result.kind == ResultKind.FAILURE), int(self.is_slow(result))
        event = Event(self.clock, result, self.run_age_s, 1, failed, slow)
        if result.kind == ResultKind.OVERDUE:
            event.in_run = False
        elif result.kind != ResultKind.IGNORED and self.is_late(result.overdue_ms):
            self.add_counted(event)
        self.events.append(event)

    def add_counted(self, event: Event) -> None:
        """The call was in the window as a slow one before it ended."""
        if not event.failed:
            event.calls = event.slow = 0
            return
        event.slow = 0
        if self.policy.sliding_window_type == "count":
            window = self.in_window()
            for other in reversed(window):
                if other.slow and not other.failed:
                    other.failed, other.result = 1, msgspec.structs.replace(other.result, tokens=event.result.tokens)
                    event.calls = event.failed = 0
                    event.beside = window[-1]
                    return
            return
        began = self.pane(self.clock - max(0.0, event.result.duration_ms - (event.result.overdue_ms or 0.0)) / 1000)
        for pane in (began, began + 1, began - 1):
            inside = [other for other in self.in_window() if self.pane(other.at) == pane]
            calls, failed, slow = (sum(getattr(one, name) for one in inside) for name in ("calls", "failed", "slow"))
            if slow and calls > failed:
                self.events.append(Event(inside[0].at, Result(), 0.0, -1, 0, -1, in_run=False))
                event.slow = 1
                return

    def count(self, result: Result) -> None:
        if result.kind == ResultKind.OVERDUE and not self.is_late(result.duration_ms):
            return
        self.add(result)
        if result.kind == ResultKind.IGNORED:
            return
        if result.kind != ResultKind.OVERDUE:
            self.add_to_totals(result)
        rules = self.breached_rules()
        if not rules:
            return
        if self.state == "closed":
            self.move("open", self.clock, "|".join(sorted(rules)))
        elif self.open_until is None or self.clock >= self.open_until:
            self.attempt += 1
            self.open_until = self.end_of_wait(self.clock)
            self.rule = "|".join(sorted(rules))

    def add_to_totals(self, result: Result) -> None:
        self.total_calls += 1
        if result.kind == ResultKind.FAILURE:
            self.total_failed += 1
            if result.retry_after_s is not None:
                self.retry_at = max(self.retry_at or 0.0, self.clock + result.retry_after_s)

    def probe(self, result: Result, lease: str | None) -> None:
        if self.state == "half_open" and any(probe.lease == lease for probe in self.out):
            self.out = [probe for probe in self.out if probe.lease != lease]
            self.tested(result)

    def tested(self, result: Result) -> None:
        self.back.append(result)
        self.add(result)
        counted = self.counted()
        if result.kind != ResultKind.IGNORED:
            self.add_to_totals(result)
        permits = self.policy.permitted_number_of_calls_in_half_open_state
        if len(self.back) - len(counted) >= 10 * permits:
            self.move("open", self.clock, "probes_ignored")
        elif self.policy.half_open_decision == "rate":
            if len(counted) >= permits:
                failed = sum(one.kind == ResultKind.FAILURE for one in counted) / len(counted)
                slow = sum(self.is_slow(one) or self.is_late(one.overdue_ms) for one in counted) / len(counted)
                limit, slow_limit = self.policy.failure_rate_threshold, self.policy.slow_call_rate_threshold
                bad = (limit is not None and failed >= limit) or (slow_limit is not None and slow >= slow_limit)
                self.move("open" if bad else "closed", self.clock, "probe_rate")
        elif any(map(self.is_bad, counted)):
            self.move("open", self.clock, "probe_failed")
        elif len(counted) >= self.policy.success_threshold_to_close:
            self.move("closed", self.clock, "probe_succeeded")

    def advance(self, now: float) -> None:
        self.at(now)
        self.expire()

    def command(self, verb: str, now: float, until: float | None) -> None:
        self.at(now)
        if verb == "reset":
            self.events, self.cusum_from, self.attempt, self.retry_at = [], 0, 0, None
            if self.state == "closed":
                self.rejected, self.rule = 0, "command"
            else:
                self.move("closed", self.clock, "command")
        elif verb == "force_open" and until is not None:
            if self.state == "open":
                self.open_until, self.rule = until, "command"
            else:
                self.move("open", self.clock, "command", until)
        elif verb == "auto":
            by_hand = self.rule == "command"
            if self.state in ("forced_open", "disabled", "metrics_only") or (self.state == "open" and by_hand):
                self.go(MODE_STATE[self.policy.mode], "command")
        else:
            names = {"force_open": "forced_open", "close": "closed", "disable": "disabled"}
            self.go(names.get(verb, verb), "command")

    def go(self, state: str, rule: str) -> None:
        if state != self.state:
            self.move(state, self.clock, rule)

    def set_policy(self, policy: BreakerPolicy, now: float) -> None:
        self.at(now)
        old, self.policy = self.policy, policy
        if (old.cusum is None) != (policy.cusum is None):
            self.cusum_from = len(self.events)
        if policy.mode != old.mode and (policy.mode != "enforce" or self.state == old.mode):
            self.go(MODE_STATE[policy.mode], "policy")

    def seen(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "generation": self.generation,
            "attempt": self.attempt,
            "changed_at": self.changed_at,
            "open_until": self.open_until,
            "leases": [(probe.lease, probe.emitter) for probe in self.out],
            "counts": self.counts(),
        }
