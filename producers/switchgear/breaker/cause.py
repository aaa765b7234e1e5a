"""Cause and Tally: why a circuit moved and what it had counted, as the breaker keeps them.

The contract's models of the same (:class:`switchgear_schemas.Cause`, :class:`switchgear_schemas.Counts`) are pydantic's: the
guard, which publishes nothing, need not import them. A test holds them together, field by field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import switchgear_schemas


class Cause(msgspec.Struct, frozen=True):
    """The rule with its value, threshold and sample, or the actor with a reason."""

    rule: str
    value: float | None = None
    threshold: float | None = None
    sample: int | None = None
    reporters: int | None = None
    actor: str | None = None
    reason: str | None = None
    failed: int | None = None
    window_s: float | None = None
    slow_call_duration_threshold_ms: float | None = None
    tolerable_failure_rate: float | None = None
    calls_between_false_opens: float | None = None

    def for_record(self) -> switchgear_schemas.Cause:
        """The same as part of a circuit's record."""
        from switchgear_schemas.circuit import Cause as Told  # noqa: PLC0415 - see above

        return Told(**msgspec.structs.asdict(self))


class Tally(msgspec.Struct, frozen=True):
    """The window at one instant."""

    calls: int
    failed: int
    slow: int
    ignored: int
    rejected: int
    wasted_tokens: int
    consecutive_failures: int
    total_calls: int
    total_failed: int

    def for_record(self) -> switchgear_schemas.Counts:
        """The same as part of a circuit's record."""
        from switchgear_schemas.circuit import Counts  # noqa: PLC0415 - see above

        return Counts(**msgspec.structs.asdict(self))
