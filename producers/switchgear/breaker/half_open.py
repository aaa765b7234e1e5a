"""The probes of a half-open circuit, and the decision that they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.breaker.values import Count
from switchgear_schemas.cause import Cause

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy

IGNORED_PER_PERMIT: Final = 10
"""Ignored probes per permit. A tool whose every call is ignored is not probed indefinitely, and one whose calls are mostly
ignored still gets probes (erpc/erpc#1118)."""


class HalfOpen(msgspec.Struct, array_like=True):
    """The probes that are out and those that came back. A snapshot holds it as it is.

    With ``first_failure`` one bad probe opens the circuit again, and ``success_threshold_to_close`` good ones close it. No more
    probes go out than could still be needed. With ``rate`` the rates decide once as many probes came back as there are permits. A
    slow probe is bad if the policy has a slow-call rule. An ignored probe gives its permit back and decides nothing.
    """

    serial: Count = 0
    good: Count = 0
    bad: Count = 0
    failed: Count = 0
    slow: Count = 0
    ignored: Count = 0
    leases: list[tuple[str, str]] = []
    """Id of each probe that is out, and the emitter that holds it. The emitter of this process's own permits is empty."""

    @property
    def finished(self) -> int:
        """Probes that came back with a result that counts."""
        return self.good + self.bad

    def room(self, policy: Policy) -> int:
        """Return how many more probes are permitted now. It may be negative after a change of policy."""
        permits = policy.permitted_number_of_calls_in_half_open_state
        if self.ignored >= permits * IGNORED_PER_PERMIT:
            return 0
        if policy.half_open_decision == "rate":
            return permits - len(self.leases) - self.finished
        needed = max(permits, policy.success_threshold_to_close) - self.good
        return min(permits, needed) - len(self.leases)

    def lease(self, generation: int, emitter_id: str = "") -> str:
        """Permit a probe. Return its id, which is unique in all generations of the circuit."""
        self.serial += 1
        lease_id = f"{generation}.{self.serial}"
        self.leases.append((lease_id, emitter_id))
        return lease_id

    def give_back(self, lease_id: str | None) -> bool:
        """End a lease. Return False if there is no such lease."""
        others = [lease for lease in self.leases if lease[0] != lease_id]
        found = len(others) < len(self.leases)
        self.leases = others
        return found

    def add(self, *, failed: bool, slow: bool) -> None:
        """Count a probe that came back."""
        self.failed += failed
        self.slow += slow
        if failed or slow:
            self.bad += 1
        else:
            self.good += 1

    def verdict(self, policy: Policy) -> tuple[bool, Cause] | None:
        """Return whether to close (True) or to open again (False) and why. Return None while it is undecided."""
        permits = policy.permitted_number_of_calls_in_half_open_state
        if self.ignored >= permits * IGNORED_PER_PERMIT:
            return False, _cause("probes_ignored", self.ignored, permits * IGNORED_PER_PERMIT, self.ignored)
        if policy.half_open_decision == "rate":
            return self._verdict_by_rate(policy) if self.finished >= permits else None
        if self.failed:
            return False, _cause("probe_failed", self.bad, 1, self.finished)
        if self.slow:
            return False, _cause("probe_slow", self.bad, 1, self.finished, policy.slow_call_duration_threshold_ms)
        needed = policy.success_threshold_to_close
        return (True, _cause("probe_succeeded", self.good, needed, self.finished)) if self.good >= needed else None

    def _verdict_by_rate(self, policy: Policy) -> tuple[bool, Cause]:
        rate, slow = self.failed / self.finished, self.slow / self.finished
        threshold, slow_threshold = policy.failure_rate_threshold, policy.slow_call_rate_threshold
        failing = threshold is not None and rate >= threshold
        if not failing and slow_threshold is not None and slow >= slow_threshold:
            slow_ms = policy.slow_call_duration_threshold_ms
            return False, _cause("probe_slow_call_rate", slow, slow_threshold, self.finished, slow_ms)
        return not failing, _cause("probe_failure_rate", rate, threshold, self.finished)


def _cause(rule: str, value: float, threshold: float | None, sample: int, slow_ms: float | None = None) -> Cause:
    limit = None if threshold is None else float(threshold)
    return Cause(rule, float(value), limit, sample, slow_call_duration_threshold_ms=slow_ms)
