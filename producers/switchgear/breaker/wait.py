"""The wait: how long an opened circuit stays open before the first probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


_MOST_DOUBLINGS: Final = 10_000
"""Attempts beyond which the grown wait is the cap in any case; keeps the power finite."""


def spread(circuit_id: str, attempt: int) -> float:
    """A number in [0, 1) that looks random, and is the same in every process and in every replay."""
    return crc32(f"{circuit_id}#{attempt}".encode(errors="surrogatepass")) / 2**32


def wait_s(circuit_id: str, attempt: int, policy: BreakerPolicy) -> float:
    """Seconds from open to the first probe.

    ``min(cap, wait * multiplier ** (attempt - 1)) * (1 - jitter * spread)``: jitter only shortens, so that the cap
    is a cap.

    Args:
        circuit_id: Seeds the jitter.
        attempt: Opens in a row without a close between them, from 1.
        policy: Wait, multiplier, cap and jitter.
    """
    wait, cap = policy.wait_duration_in_open_state_s, policy.max_wait_duration_in_open_state_s
    if policy.backoff_multiplier > 1 and attempt > 1:
        try:
            wait *= policy.backoff_multiplier ** min(attempt - 1, _MOST_DOUBLINGS)
        except OverflowError:
            wait = cap
    return min(wait, cap) * (1 - policy.jitter * spread(circuit_id, attempt))


def open_until(circuit_id: str, attempt: int, policy: BreakerPolicy, now: float, retry_at: float | None) -> float:
    """The instant from which a probe may go.

    ``retry_at``, the end of the longest ``Retry-After`` heard of, lengthens the wait up to the cap.
    """
    until = now + wait_s(circuit_id, attempt, policy)
    if retry_at is not None and policy.honor_retry_after:
        until = max(until, min(retry_at, now + policy.max_wait_duration_in_open_state_s))
    return until
