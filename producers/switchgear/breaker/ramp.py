"""The recovery by degrees: after a close by probes, a growing share of the calls goes, until all go.

The owner's record says which share. Each process picks its own calls by :func:`admits`, without asking.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Final
from zlib import crc32

import msgspec
from msgspec import Meta

from switchgear.breaker.values import Count, Instant
from switchgear_schemas.cause import Cause
from switchgear_schemas.enums import MOST_STEPS

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy

FEWEST_CALLS: Final = 5
"""Calls of the ramp before their failure rate is judged."""
FAILURE_RATE: Final = 0.5
"""The failure rate that opens again, if the policy has no ``failure_rate_threshold``."""
AFTER_RETRY_AFTER: Final = "calls return by degrees, because the tool sent Retry-After"
"""The reason in the causes of a ramp after an outage in which the tool sent ``Retry-After``."""
RECOVERY: Final = "recovery: "
"""How the reason of a refusal by a ramp begins."""


def shares_of(policy: Policy, *, rate_limited: bool) -> tuple[float, ...]:
    """Return the share of each step after a close by probes. Without a step, all calls go at once.

    Args:
        policy: The policy in force. Its ``recovery_ramp`` goes before its ``retry_after_ramp``.
        rate_limited: Whether the tool sent ``Retry-After`` in the outage.
    """
    if policy.recovery_ramp:
        return policy.recovery_ramp
    return (policy.retry_after_ramp or ()) if rate_limited and policy.honor_retry_after else ()


def admits(n: int, share: float, phase: float) -> bool:
    """Return whether call ``n`` of a process, counted from 1, is one of the ``share`` that goes.

    Of any calls in a row exactly the share goes, to within one call, and evenly. Processes with other phases pick other calls.
    """
    return math.floor(n * share + phase) > math.floor((n - 1) * share + phase)


def phase_of(emitter_id: str) -> float:
    """Return the phase of a process, a number in [0, 1)."""
    return crc32(emitter_id.encode(errors="surrogatepass")) / 2**32


def in_words(share: float, reason: str | None = None) -> str:
    """Return why a call was refused that is not one of the share. ``reason`` is that of the circuit's cause."""
    why = ", because the tool sent Retry-After" if reason == AFTER_RETRY_AFTER else ""
    return f"{RECOVERY}{share * 100:.4g} % of calls are admitted{why}"


def is_recovery(reason: str) -> bool:
    """Return whether a reason is one of :func:`in_words`."""
    words = rf"{RECOVERY}[0-9][0-9.e-]{{0,11}} % of calls are admitted(?:, because the tool sent Retry-After)?"
    return re.fullmatch(words, reason) is not None


class Ramp(msgspec.Struct, array_like=True):
    """How far a circuit has recovered. A snapshot holds it as it is.

    Steps begin when the clock says so, not when they are noticed. The share never falls, whatever policy follows.
    """

    began: Instant
    """When the circuit closed."""
    share: Annotated[float, Meta(gt=0, lt=1)]
    step: Annotated[int, Meta(ge=0, le=MOST_STEPS)] = 0
    calls: Count = 0
    """Calls since the close that count."""
    failed: Count = 0
    asked: Count = 0
    """Calls of this process, both permitted and refused."""
    rate_limited: bool = False
    """Whether there is a ramp only because the tool sent ``Retry-After``."""

    @classmethod
    def begin(cls, policy: Policy, now: float, *, rate_limited: bool = False) -> Ramp | None:
        """Return the ramp of a circuit that closes now. None if its policy has none. For ``rate_limited`` see :func:`shares_of`."""
        rate_limited = rate_limited and not policy.recovery_ramp
        shares = shares_of(policy, rate_limited=rate_limited)
        return cls(now, shares[0], rate_limited=rate_limited) if shares else None

    @property
    def reason(self) -> str | None:
        """Why there is a ramp, for the causes. None if the policy has one after every outage."""
        return AFTER_RETRY_AFTER if self.rate_limited else None

    def climb(self, policy: Policy, now: float) -> float | None:
        """Go to the step that is due. Return the new share, which is 1 after the last step. None: the share stays."""
        shares = shares_of(policy, rate_limited=self.rate_limited)
        while now >= self.began + (self.step + 1) * policy.recovery_ramp_step_s:
            self.step += 1
            if self.step >= len(shares):
                return 1.0
        share = max(self.share, shares[self.step])
        if share == self.share:
            return None
        self.share = share
        return share

    def follow(self, policy: Policy) -> Ramp | None:
        """Return the ramp under another policy. None if that one has no such step."""
        shares = shares_of(policy, rate_limited=self.rate_limited)
        if self.step >= len(shares):
            return None
        self.share = max(self.share, shares[self.step])
        return self

    def admits_next(self) -> bool:
        """Count a call of this process. Return whether it goes."""
        self.asked += 1
        return admits(self.asked, self.share, 0.0)

    def began_step_at(self, policy: Policy) -> float:
        """Return when the present step began."""
        return self.began + self.step * policy.recovery_ramp_step_s

    def rest_of_step_s(self, policy: Policy, now: float) -> float:
        """Return the seconds until the next step."""
        return max(0.0, self.began_step_at(policy) + policy.recovery_ramp_step_s - now)

    def over(self, policy: Policy, now: float) -> bool:
        """Return whether the last step has ended."""
        steps = len(shares_of(policy, rate_limited=self.rate_limited))
        return now >= self.began + steps * policy.recovery_ramp_step_s

    def add(self, *, failed: bool) -> None:
        """Count a call that counts."""
        self.calls += 1
        self.failed += failed

    def breach(self, policy: Policy) -> Cause | None:
        """Return why the circuit opens again, or None."""
        threshold = FAILURE_RATE if policy.failure_rate_threshold is None else policy.failure_rate_threshold
        if self.calls < FEWEST_CALLS or self.failed / self.calls < threshold:
            return None
        return Cause("recovery_failed", self.failed / self.calls, float(threshold), self.calls, failed=self.failed)
