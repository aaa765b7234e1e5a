"""A policy without pydantic, for defaults that need no check. ``import switchgear`` must not import pydantic, which is slow.

``BreakerPolicy`` is the contract. A test compares the two, field by field and default by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import msgspec

from switchgear_schemas.enums import DEFAULT_COUNTED, DEFAULT_MAX_WAIT_S, ErrorClass, Mode, Scope

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


class PlainPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a BreakerPolicy."""

    consecutive_failures: int | None = None
    failure_count: int | None = None
    failure_rate_threshold: float | None = None
    minimum_number_of_calls: int = 20
    cusum: None = None
    slow_call_duration_threshold_ms: float | None = None
    slow_call_rate_threshold: float | None = None
    wasted_tokens: int | None = None
    sliding_window_type: Literal["time", "count"] = "time"
    sliding_window_size: int | float = 60
    sliding_window_panes: int | None = None
    wait_duration_in_open_state_s: float = 60
    backoff_multiplier: float = 1.0
    max_wait_duration_in_open_state_s: float = DEFAULT_MAX_WAIT_S
    jitter: float = 0.0
    permitted_number_of_calls_in_half_open_state: int = 1
    success_threshold_to_close: int = 1
    half_open_decision: Literal["first_failure", "rate"] = "first_failure"
    max_wait_duration_in_half_open_state_s: float = 30
    minimum_reporters: int = 1
    counted_error_classes: frozenset[ErrorClass] = DEFAULT_COUNTED
    honor_retry_after: bool = True
    scope: Scope = "tool"
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()


def policy_in_force(policy: PlainPolicy) -> BreakerPolicy:
    """Return ``policy`` with the type of the contract. A breaker only reads its values."""
    return cast("BreakerPolicy", policy)
