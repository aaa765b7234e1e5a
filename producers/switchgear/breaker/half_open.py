"""HalfOpen: the probes of one half-open stay, and when they are enough for a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from switchgear.breaker.values import Cause

if TYPE_CHECKING:
    from switchgear.breaker.snapshot import SavedHalfOpen
    from switchgear_schemas.policy import BreakerPolicy

IGNORED_PER_PERMIT: Final = 10
"""Ignored probes that one permit may bring back: a tool whose every call is ignored is not asked for ever, and one
whose calls are mostly ignored is not starved either (erpc/erpc#1118)."""


class HalfOpen:
    """Probes handed out and come back.

    ``first_failure``: one bad probe reopens, ``success_threshold_to_close`` good ones close, and no more are handed out
    than could still be needed. ``rate``: when as many came back as there are permits, their rates decide. A slow probe is
    a bad one where the policy has a slow-call rule. An ignored one gives its permit back and decides nothing.
    """

    __slots__ = ("bad", "failed", "good", "ignored", "outstanding", "serial", "slow")

    def __init__(self) -> None:
        self.outstanding: dict[str, str] = {}
        """Lease id to the emitter that holds it; empty for a permit of this process."""
        self.serial = 0
        self.good = self.bad = self.failed = self.slow = self.ignored = 0

    @property
    def finished(self) -> int:
        """Probes that came back with an outcome that counts."""
        return self.good + self.bad

    def room(self, policy: BreakerPolicy) -> int:
        """How many more probes may go now."""
        permits = policy.permitted_number_of_calls_in_half_open_state
        flying = len(self.outstanding)
        if self.ignored >= permits * IGNORED_PER_PERMIT:
            return 0
        if policy.half_open_decision == "rate":
            return permits - flying - self.finished
        return min(permits, max(permits, policy.success_threshold_to_close) - self.good) - flying

    def lease(self, generation: int, emitter_id: str = "") -> str:
        """Hand out a probe; the id is unique among all generations of the circuit."""
        self.serial += 1
        lease_id = f"{generation}.{self.serial}"
        self.outstanding[lease_id] = emitter_id
        return lease_id

    def give_back(self, lease_id: str | None) -> bool:
        """End a lease; False where it is not a live one."""
        return lease_id is not None and self.outstanding.pop(lease_id, None) is not None

    def held_by(self, emitter_id: str) -> bool:
        """Whether that process has a live lease."""
        return emitter_id in self.outstanding.values()

    def add(self, *, failed: bool, slow: bool) -> None:
        """Count a probe that came back."""
        self.failed += failed
        self.slow += slow
        if failed or slow:
            self.bad += 1
        else:
            self.good += 1

    def verdict(self, policy: BreakerPolicy) -> tuple[bool, Cause] | None:  # noqa: PLR0911 - a return a verdict
        """Whether to close (True) or to open again (False) and why; None while it is undecided."""
        permits = policy.permitted_number_of_calls_in_half_open_state
        if self.ignored >= permits * IGNORED_PER_PERMIT:
            return False, _cause("probes_ignored", self.ignored, permits * IGNORED_PER_PERMIT, self.ignored)
        if policy.half_open_decision == "first_failure":
            if self.bad:
                if self.failed:
                    return False, _cause("probe_failed", self.bad, 1, self.finished)
                return False, _cause("probe_slow", self.bad, 1, self.finished, policy.slow_call_duration_threshold_ms)
            needed = policy.success_threshold_to_close
            if self.good >= needed:
                return True, _cause("probe_succeeded", self.good, needed, self.finished)
            return None
        if self.finished < permits:
            return None
        rate, slow = self.failed / self.finished, self.slow / self.finished
        threshold, slow_threshold = policy.failure_rate_threshold, policy.slow_call_rate_threshold
        if threshold is not None and rate >= threshold:
            return False, _cause("probe_failure_rate", rate, threshold, self.finished)
        if slow_threshold is not None and slow >= slow_threshold:
            slow_ms = policy.slow_call_duration_threshold_ms
            return False, _cause("probe_slow_call_rate", slow, slow_threshold, self.finished, slow_ms)
        return True, _cause("probe_failure_rate", rate, threshold, self.finished)

    def dump(self) -> SavedHalfOpen:
        """Return the numbers and leases for a snapshot."""
        leases = list(self.outstanding.items())
        return self.serial, self.good, self.bad, self.failed, self.slow, self.ignored, leases

    @classmethod
    def load(cls, saved: SavedHalfOpen) -> HalfOpen:
        """Return the probes that :meth:`dump` saved."""
        half_open = cls()
        (
            half_open.serial,
            half_open.good,
            half_open.bad,
            half_open.failed,
            half_open.slow,
            half_open.ignored,
            leases,
        ) = saved
        half_open.outstanding = dict(leases)
        return half_open


def _cause(rule: str, value: float, threshold: float | None, sample: int, slow_ms: float | None = None) -> Cause:
    return Cause(
        rule,
        float(value),
        None if threshold is None else float(threshold),
        sample,
        slow_call_duration_threshold_ms=slow_ms,
    )
