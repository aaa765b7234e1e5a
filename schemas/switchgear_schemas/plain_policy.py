"""A policy's values without pydantic. Generated from ``switchgear_schemas.policy`` by ``make schemas``: change that module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from switchgear_schemas.enums import DEFAULT_COUNTED, ErrorClass, Mode, PaceMode, Scope

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy, Cusum


class PlainCusum(Struct, frozen=True, kw_only=True):
    """The values of a ``Cusum``."""

    tolerable_failure_rate: float = 0.1
    broken_failure_rate: float = 0.5
    calls_between_false_opens: float = 1_000_000


class PlainPolicy(Struct, frozen=True, kw_only=True):
    """The values of a ``BreakerPolicy``, for defaults that need no check."""

    consecutive_failures: int | None = None
    consecutive_auth_failures: int | None = 3
    failure_count: int | None = None
    failure_rate_threshold: float | None = None
    minimum_number_of_calls: int = 20
    cusum: PlainCusum | None = None
    slow_call_duration_threshold_ms: float | None = None
    slow_call_rate_threshold: float | None = None
    wasted_tokens: int | None = None
    sliding_window_type: Literal["time", "count"] = "time"
    sliding_window_size: int | float = 60
    sliding_window_panes: int | None = None
    wait_duration_in_open_state_s: float = 60
    backoff_multiplier: float = 1.0
    max_wait_duration_in_open_state_s: float = 600.0
    jitter: float = 0.0
    permitted_number_of_calls_in_half_open_state: int = 1
    success_threshold_to_close: int = 1
    half_open_decision: Literal["first_failure", "rate"] = "first_failure"
    max_wait_duration_in_half_open_state_s: float = 30
    minimum_reporters: int = 1
    minimum_tools: int = 1
    recovery_ramp: tuple[float, ...] | None = None
    retry_after_ramp: tuple[float, ...] | None = None
    recovery_ramp_step_s: float = 10
    counted_error_classes: frozenset[ErrorClass] = DEFAULT_COUNTED
    honor_retry_after: bool = True
    scope: Scope = "tool"
    target: str | None = None
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    pace: PaceMode = "learn"
    pace_limit: str | None = None
    pace_wait_s: float = 5


LOCAL_TOOLS: Final = PlainPolicy(
    consecutive_failures=5,
    cusum=PlainCusum(
        tolerable_failure_rate=0.3,
        broken_failure_rate=0.8,
    ),
)
"""``LOCAL_DEFAULT``."""
LOCAL_FAMILIES: Final = PlainPolicy(
    consecutive_failures=5,
    cusum=PlainCusum(
        tolerable_failure_rate=0.3,
        broken_failure_rate=0.8,
    ),
    minimum_tools=2,
    counted_error_classes=frozenset({"timeout", "transport"}),
)
"""``LOCAL_FAMILY_DEFAULT``."""

Policy: TypeAlias = "PlainPolicy | BreakerPolicy"
"""The rules of a circuit, as a breaker reads them."""
CusumRule: TypeAlias = "PlainCusum | Cusum"
"""The rates of a CUSUM, as a breaker reads them."""
