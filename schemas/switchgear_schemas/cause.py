"""The parts of a circuit's record that its breaker makes: why it is in its state, and what it has counted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Cause(msgspec.Struct, frozen=True):
    """Why the circuit is in its state: a rule with its value, threshold and sample, or an actor with a reason."""

    rule: Annotated[
        str, Meta(description="Rule that decided, e.g. failure_rate, cusum, auth_failures, probe_succeeded, command.")
    ]
    value: Annotated[float | None, Meta(description="What the rule measured.")] = None
    threshold: Annotated[
        float | None, Meta(description="What the value was compared to (value >= threshold opens).")
    ] = None
    sample: Annotated[
        int | None,
        Meta(description="Calls the value was measured over. CUSUM: the calls since its sum was last zero."),
    ] = None
    reporters: Annotated[
        int | None,
        Meta(description="Distinct processes among the failures, counted up to the policy's minimum_reporters."),
    ] = None
    actor: Annotated[str | None, Meta(description="Who commanded it.")] = None
    reason: Annotated[str | None, Meta(description="The reason the actor gave, or the rule in words.")] = None
    failed: Annotated[int | None, Meta(description="Failed calls in the sample.")] = None
    window_s: Annotated[
        float | None,
        Meta(
            description="Length of the time window that the sample comes from, in seconds. Null without a time window."
        ),
    ] = None
    slow_call_duration_threshold_ms: Annotated[
        float | None, Meta(description="Slow-call rules: a call that takes longer is slow, in milliseconds.")
    ] = None
    tolerable_failure_rate: Annotated[
        float | None, Meta(description="CUSUM: the failure rate that the policy considers healthy.")
    ] = None
    calls_between_false_opens: Annotated[
        float | None,
        Meta(description="CUSUM: at the healthy rate it opens by chance less than once in this many calls."),
    ] = None
    tools: Annotated[
        int | None, Meta(description="Distinct tools among the failures, counted up to the policy's minimum_tools.")
    ] = None


class Counts(msgspec.Struct, frozen=True):
    """The circuit's window at the time of the record."""

    calls: int = 0
    failed: int = 0
    slow: int = 0
    ignored: int = 0
    rejected: int = 0
    wasted_tokens: int = 0
    consecutive_failures: int = 0
    total_calls: Annotated[int, Meta(description="Counted calls since the circuit was first seen.")] = 0
    total_failed: Annotated[int, Meta(description="Counted failures since the circuit was first seen.")] = 0
