"""The probes of a half-open circuit, and the decision that they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from switchgear.breaker.values import Cause

if TYPE_CHECKING:
    from switchgear.breaker.snapshot import SavedHalfOpen
    from switchgear_schemas.policy import BreakerPolicy

IGNORED_PER_PERMIT: Final = 10
"""Ignored probes per permit. A tool whose every call is ignored is not probed indefinitely, and one whose calls are mostly
ignored still gets probes (erpc/erpc#1118)."""


class HalfOpen:
    """The probes that are out and those that came back.

    With ``first_failure`` one bad probe opens the circuit again, and ``success_threshold_to_close`` good ones close it. No more
    probes go out than could still be needed. With ``rate`` the rates decide once as many probes came back as there are permits. A
    slow probe is bad if the policy has a slow-call rule. An ignored probe gives its permit back and decides nothing.
    """

    __slots__ = ("bad", "failed", "good", "ignored", "outstanding", "serial", "slow")

    def __init__(self) -> None:
        self.outstanding: dict[str, str] = {}
        """Lease id to the emitter that holds it. The emitter of this process's own permits is empty."""
        self.serial = 0
        self.good = self.bad = self.failed = self.slow = self.ignored = 0

    @property
    def finished(self) -> int:
        """Probes that came back with a result that counts."""
        return self.good + self.bad

    def room(self, policy: BreakerPolicy) -> int:
        """Return how many more probes are permitted now."""
        permits = policy.permitted_number_of_calls_in_half_open_state
        flying = len(self.outstanding)
        if self.ignored >= permits * IGNORED_PER_PERMIT:
            return 0
        if policy.half_open_decision == "rate":
            return permits - flying - self.finished
        return min(permits, max(permits, policy.success_threshold_to_close) - self.good) - flying

    def lease(self, generation: int, emitter_id: str = "") -> str:
        """Permit a probe. Return its id, which is unique in all generations of the circuit."""
        self.serial += 1
        lease_id = f"{generation}.{self.serial}"
        self.outstanding[lease_id] = emitter_id
        return lease_id

    def give_back(self, lease_id: str | None) -> bool:
        """End a lease. Return False if there is no such lease."""
        return lease_id is not None and self.outstanding.pop(lease_id, None) is not None

    def held_by(self, emitter_id: str) -> bool:
        """Return whether a process holds a lease."""
        return emitter_id in self.outstanding.values()

    def add(self, *, failed: bool, slow: bool) -> None:
        """Count a probe that came back."""
        self.failed += failed
        self.slow += slow
        if failed or slow:
            self.bad += 1
        else:
            self.good += 1

    def verdict(self, policy: BreakerPolicy) -> tuple[bool, Cause] | None:  # noqa: PLR0911 - one return per decision
        """Return whether to close (True) or to open again (False) and why. Return None while it is undecided."""
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
