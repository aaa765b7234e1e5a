"""When a circuit opens, how long it waits, and how it closes. The names are resilience4j's.

Policies from files, commands and constructors are all checked by these models.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from switchgear_schemas.enums import (
    DEFAULT_COUNTED,
    DEFAULT_MAX_WAIT_S,
    LONGEST_WAIT_S,
    MAX_NAME_LENGTH,
    MOST_CALLS,
    MOST_PROBES,
    MOST_STEPS,
    SHORTEST_WAIT_S,
    ErrorClass,
    Mode,
    PaceMode,
    Scope,
)
from switchgear_schemas.pacing import LIMIT_PATTERN, read_limit

__all__ = [
    "DEFAULT_COUNTED",
    "DEFAULT_MAX_WAIT_S",
    "FAMILY_DEFAULT",
    "FLEET_DEFAULT",
    "LOCAL_DEFAULT",
    "LOCAL_FAMILY_DEFAULT",
    "BreakerPolicy",
    "Cusum",
]

TARGET_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*){0,4}$"
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A finite number. True, False and text are not numbers."""
Calls = Annotated[int, Field(strict=True, ge=1, le=MOST_CALLS)]
Share = Annotated[Number, Field(gt=0, le=1)]
Seconds = Annotated[Number, Field(ge=SHORTEST_WAIT_S, le=LONGEST_WAIT_S)]
Rate = Annotated[Number, Field(ge=0.0001, le=0.9999)]
Target = Annotated[str, Field(max_length=64, pattern=TARGET_PATTERN)]
Shares = Annotated[tuple[Share, ...], Field(min_length=1, max_length=MOST_STEPS)]
ToolName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]

SHORTEST_WINDOW_S: Final = 0.1
LONGEST_WINDOW: Final = 86_400
"""Seconds of a time window (a day), calls of a count window."""
MOST_CUSUM_WORK: Final = 8_000_000
"""Steps that solving the threshold may take, at most two seconds. Rates that are tiny or close together need more."""
MOST_FALLBACKS: Final = 32
LONGEST_PACE_WAIT_S: Final = 600.0
OWN_FALLBACK: Final = "a tool can't be its own fallback"


class Cusum(BaseModel):
    """Page's cumulative sum (1954) for Bernoulli outcomes, which detects a change of a rate."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    tolerable_failure_rate: Rate = Field(default=0.10, description="p0: a rate that is still healthy.")
    broken_failure_rate: Rate = Field(default=0.50, description="p1: a rate that is broken.")
    calls_between_false_opens: Number = Field(
        default=1_000_000,
        ge=10,
        le=MOST_CALLS,
        description="Wanted mean number of calls between opens at the tolerable rate; the threshold h is solved from it.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.broken_failure_rate <= self.tolerable_failure_rate:
            raise ValueError("broken_failure_rate must be greater than tolerable_failure_rate")
        if self._work() > MOST_CUSUM_WORK:
            raise ValueError(
                "tolerable_failure_rate and broken_failure_rate are too close together, or too near to 0 or 1, for so many"
                " calls_between_false_opens: the threshold can't be solved. Move the rates apart"
            )
        return self

    def _work(self) -> float:
        """Return the steps that solving the threshold takes: its states, times the ratio of the weights of a failure and a success."""
        good, bad = self.tolerable_failure_rate, self.broken_failure_rate
        small, large = sorted((math.log(bad / good), math.log((1 - good) / (1 - bad))))
        if small <= 0:  # the two rates are one float apart
            return math.inf
        ratio = large / small
        return (math.log(self.calls_between_false_opens) / small + ratio) * ratio


class BreakerPolicy(BaseModel):
    """The rules of a circuit. A rule that is null is off. Any rule that is breached opens the circuit.

    Rates are fractions. Thresholds compare with ``>=``. A call is slow if it takes longer than the threshold. Numbers are finite and
    within limits. True, False and text are refused.

    Raises:
        pydantic.ValidationError: A key is unknown, a value is out of range, or values contradict each other. The error names the field.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    consecutive_failures: Calls | None = Field(default=None, description="Failures in a row.")
    consecutive_auth_failures: Calls | None = Field(
        default=3,
        description="Different credentials that are rejected in a row. Also calls in a row of one credential.",
    )
    failure_count: Calls | None = Field(default=None, description="Failures within the window.")
    failure_rate_threshold: Share | None = Field(default=None, description="Failed share of the window's calls.")
    minimum_number_of_calls: Calls = Field(default=20, description="Calls in the window before a rate is judged.")
    cusum: Cusum | None = Field(default=None, description="Detector of a change, whatever the volume.")
    slow_call_duration_threshold_ms: Annotated[Number, Field(ge=0.000_001, le=86_400_000)] | None = Field(
        default=None,
        description="Slower than this is slow. Null with slow_call_rate_threshold: only overdue calls are, by what the fleet learns.",
    )
    slow_call_rate_threshold: Share | None = Field(default=None, description="Slow share of the window's calls.")
    wasted_tokens: Annotated[int, Field(strict=True, ge=1, le=10**15)] | None = Field(
        default=None, description="Tokens of failed calls within the window (input, output, cache creation)."
    )
    sliding_window_type: Literal["time", "count"] = "time"
    sliding_window_size: int | float = Field(
        default=60,
        ge=SHORTEST_WINDOW_S,
        le=LONGEST_WINDOW,
        description="Seconds of a time window, calls of a count window.",
    )
    sliding_window_panes: Annotated[int, Field(strict=True, ge=1, le=120)] | None = Field(
        default=None,
        description="Panes in which a time window is counted. 1 makes it a fixed window that starts over. Null: chosen from the size.",
    )
    wait_duration_in_open_state_s: Seconds = Field(default=60, description="From open until the first probe.")
    backoff_multiplier: Number = Field(
        default=1.0, ge=1, le=1000, description="Factor on the wait for each open in a row."
    )
    max_wait_duration_in_open_state_s: Seconds = Field(default=DEFAULT_MAX_WAIT_S, description="Cap of the grown wait.")
    jitter: Number = Field(
        default=0.0, ge=0, lt=1, description="Share of the wait that is spread at random, per circuit and attempt."
    )
    permitted_number_of_calls_in_half_open_state: int = Field(
        default=1, strict=True, ge=1, le=MOST_PROBES, description="Probes in flight."
    )
    success_threshold_to_close: Calls = Field(default=1, description="Successful probes that close.")
    half_open_decision: Literal["first_failure", "rate"] = Field(
        default="first_failure", description="Reopen at the first failed probe, or judge the rates over all permits."
    )
    max_wait_duration_in_half_open_state_s: Seconds = Field(
        default=30, description="Longest stay without a verdict; then open again."
    )
    minimum_reporters: int = Field(
        default=1,
        strict=True,
        ge=1,
        le=64,
        description="Distinct processes the failures must come from, or all that called if fewer.",
    )
    minimum_tools: int = Field(
        default=1,
        strict=True,
        ge=1,
        le=64,
        description="Families: distinct tools the failures must come from, or all that were called if fewer, but two at least.",
    )
    recovery_ramp: Shares | None = Field(
        default=None, description="After a close by probes: the share of calls of each step, rising. Then all calls go."
    )
    retry_after_ramp: Shares | None = Field(
        default=None,
        description="The same after an outage in which the tool sent Retry-After. recovery_ramp goes before it.",
    )
    recovery_ramp_step_s: Seconds = Field(default=10, description="Length of a step of either ramp.")
    counted_error_classes: frozenset[ErrorClass] = Field(
        default=DEFAULT_COUNTED, description="Failures of these classes count; others are ignored."
    )
    honor_retry_after: bool = Field(
        default=True, strict=True, description="A rate-limited tool's Retry-After lengthens the wait."
    )
    scope: Scope = Field(default="tool", description="One circuit a tool, or a tool and user, session or tenant.")
    target: Target | None = Field(
        default=None,
        description="Argument that names what a call is about, such as url.host: one circuit a tool and target.",
    )
    mode: Mode = "enforce"
    fallback: tuple[ToolName, ...] = Field(
        default=(), max_length=MOST_FALLBACKS, description="Tools to use instead, in order."
    )
    pace: PaceMode = Field(
        default="learn",
        description="The rate that the tool takes: learn and show it, or enforce it: all processes together keep it.",
    )
    pace_limit: Annotated[str, Field(pattern=LIMIT_PATTERN)] | None = Field(
        default=None, description="That rate, if you know it: 100/min, 10/s, 5/10s. Null: it is learned."
    )
    pace_wait_s: Annotated[Number, Field(ge=0, le=LONGEST_PACE_WAIT_S)] = Field(
        default=5, description="Longest wait of a call for its turn; a call that must wait longer is refused."
    )

    @field_validator("sliding_window_size", mode="before")
    @classmethod
    def _is_number(cls, size: object) -> object:
        """Refuse with one message. For a union, pydantic would list what each member misses."""
        if (
            isinstance(size, bool)
            or not isinstance(size, int | float)
            or (isinstance(size, float) and math.isnan(size))
        ):
            raise ValueError("Input should be a valid number")
        return size

    @field_validator("target", mode="before")
    @classmethod
    def _is_path(cls, target: object) -> object:
        """Refuse with words in place of the pattern."""
        if target is None or (isinstance(target, str) and len(target) <= 64 and re.fullmatch(TARGET_PATTERN, target)):
            return target
        raise ValueError(
            "takes the name of an argument, or up to 5 names with dots between them of which the last may be host, such as"
            " url.host"
        )

    @field_validator("pace_limit", mode="before")
    @classmethod
    def _is_limit(cls, limit: object) -> object:
        """Refuse with words in place of the pattern."""
        if isinstance(limit, str):
            read_limit(limit)
        return limit

    @field_serializer("counted_error_classes", when_used="json")
    def _in_order(self, classes: frozenset[ErrorClass]) -> list[ErrorClass]:
        return sorted(classes)

    @model_validator(mode="before")
    @classmethod
    def _cap_follows_wait(cls, data: Any) -> Any:
        """Raise the cap to the wait, if the wait is longer than the default cap and no cap is given."""
        if isinstance(data, dict) and data.get("max_wait_duration_in_open_state_s") is None:
            wait = data.get("wait_duration_in_open_state_s")
            if isinstance(wait, int | float) and wait > DEFAULT_MAX_WAIT_S:
                return {**data, "max_wait_duration_in_open_state_s": wait}
        return data

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.slow_call_rate_threshold is None and self.slow_call_duration_threshold_ms is not None:
            raise ValueError(
                "slow_call_duration_threshold_ms needs slow_call_rate_threshold, the share that is too much"
            )
        for name, ramp in (("recovery_ramp", self.recovery_ramp), ("retry_after_ramp", self.retry_after_ramp)):
            shares = ramp or ()
            if any(share >= 1 for share in shares) or list(shares) != sorted(set(shares)):
                raise ValueError(
                    f"{name} takes shares between 0 and 1 that rise from step to step, such as [0.1, 0.25, 0.5]; after the"
                    " last step all calls go"
                )
        if self.max_wait_duration_in_open_state_s < self.wait_duration_in_open_state_s:
            raise ValueError("max_wait_duration_in_open_state_s must not be less than wait_duration_in_open_state_s")
        if self.target is not None and self.scope != "tool":
            raise ValueError(
                f"target and scope {self.scope} exclude each other: a circuit is for a target, a user, a session or a tenant"
            )
        judges_rates = self.failure_rate_threshold is not None or self.slow_call_rate_threshold is not None
        if self.half_open_decision == "rate" and not judges_rates:
            raise ValueError(
                "half_open_decision rate needs failure_rate_threshold or slow_call_rate_threshold to judge by"
            )
        if self.sliding_window_type == "count":
            self._possible_in_count_window(judges_rates)
        return self

    def _possible_in_count_window(self, judges_rates: bool) -> None:
        size = self.sliding_window_size
        if size != int(size):
            raise ValueError(f"sliding_window_size of a count window is a whole number of calls, not {size}")
        if self.sliding_window_panes is not None:
            raise ValueError(
                "sliding_window_panes belongs to a time window: leave it out, or set sliding_window_type time"
            )
        if judges_rates and self.minimum_number_of_calls > size:
            raise ValueError(
                f"minimum_number_of_calls ({self.minimum_number_of_calls}) is more than a window of {size} calls ever holds:"
                " no rate would be judged"
            )
        if self.failure_count is not None and self.failure_count > size:
            raise ValueError(f"failure_count ({self.failure_count}) is more than a window of {size} calls ever holds")


LOCAL_CUSUM: Final = Cusum(tolerable_failure_rate=0.3, broken_failure_rate=0.8)
"""The CUSUM of one process's own circuits. Many frameworks hide a model's mistake in an exception of an unknown type, and two of the
tools of tau-bench fail 40 % and 57 % of their calls that way: the fleet's rates take them for broken."""
LOCAL_DEFAULT: Final = BreakerPolicy(consecutive_failures=5, cusum=LOCAL_CUSUM)
"""The default of one process's own circuits: open after five failures in a row, or by the CUSUM, wait 60 s, make one probe.

The CUSUM opens on a tool that fails four of five calls: a run alone would end with each success.
"""

RETRY_AFTER_RAMP: Final = (0.1, 0.25, 0.5)
"""The fleet's shares after an outage in which the tool sent ``Retry-After``. One process makes no wave, so its own circuits have none."""

FLEET_DEFAULT: Final = BreakerPolicy(
    failure_rate_threshold=0.5,
    minimum_number_of_calls=20,
    cusum=Cusum(),
    minimum_reporters=2,
    retry_after_ramp=RETRY_AFTER_RAMP,
)
"""The default of the fleet's circuits. It uses rates and a CUSUM: at 1,000 calls/s and 10 % errors, five failures in a row occur every 100 s."""

UNANSWERED: Final[frozenset[ErrorClass]] = frozenset({"transport", "timeout"})
"""Failures without an answer from the server. Only these count for a family."""
_OF_FAMILIES: Final = {"minimum_tools": 2, "counted_error_classes": UNANSWERED}

FAMILY_DEFAULT: Final = FLEET_DEFAULT.model_copy(update=_OF_FAMILIES)
"""The default of the circuits of families. Failures without an answer from the server count, if they come from more than one tool."""

LOCAL_FAMILY_DEFAULT: Final = LOCAL_DEFAULT.model_copy(update=_OF_FAMILIES)
"""The default of one process's own circuits of families: the rules of :data:`LOCAL_DEFAULT`, if more than one tool failed."""
