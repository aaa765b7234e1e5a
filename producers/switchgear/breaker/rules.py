"""The rules that open a circuit. Each compares a measured value with a threshold, by ``>=``."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear.breaker.cusum import Detector, solve

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


class Thresholds(msgspec.Struct, frozen=True, gc=False):
    """The thresholds of a policy, shared by all its circuits. The threshold of a rule that is off is infinite."""

    consecutive: float
    count: float
    rate: float
    minimum_calls: int
    slow_ms: float
    slow_rate: float
    tokens: float
    height: float
    up: int
    down: int
    cusum: Detector | None
    minimum_reporters: int


def _or_never(threshold: float | None) -> float:
    return math.inf if threshold is None else threshold


@lru_cache(maxsize=1024)
def thresholds_of(policy: BreakerPolicy) -> Thresholds:
    """Return the thresholds of ``policy``."""
    cusum = solve(policy.cusum) if policy.cusum is not None else None
    return Thresholds(
        consecutive=_or_never(policy.consecutive_failures),
        count=_or_never(policy.failure_count),
        rate=_or_never(policy.failure_rate_threshold),
        minimum_calls=policy.minimum_number_of_calls,
        slow_ms=_or_never(policy.slow_call_duration_threshold_ms),
        slow_rate=_or_never(policy.slow_call_rate_threshold),
        tokens=_or_never(policy.wasted_tokens),
        height=math.inf if cusum is None else cusum.height,
        up=0 if cusum is None else cusum.up,
        down=0 if cusum is None else cusum.down,
        cusum=cusum,
        minimum_reporters=policy.minimum_reporters,
    )


class Breach(msgspec.Struct, frozen=True, gc=False):
    """A breached rule, with the value, the threshold, the number of calls measured, and how many of them failed."""

    rule: str
    value: float
    threshold: float
    sample: int
    failed: int | None = None

    @property
    def windowed(self) -> bool:
        """Whether the rule measures the calls in the policy's window."""
        return self.rule not in _WITHOUT_WINDOW


_WITHOUT_WINDOW: Final = frozenset({"consecutive_failures", "cusum"})
