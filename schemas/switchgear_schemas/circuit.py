"""Circuit: the whole state of one circuit, the contract of the compacted ``switchgear.circuits`` topic."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from switchgear_schemas.enums import CircuitState, Mode, Scope

__all__ = ["Cause", "Circuit", "CircuitState", "Counts", "Lease", "Mode", "Scope"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, from_attributes=True)


class Cause(_Record):
    """Why the circuit is in its state: the rule with its value, threshold and sample, or the actor with a reason."""

    rule: str = Field(description="Rule that decided, e.g. failure_rate, cusum, probe_succeeded, command.")
    value: float | None = Field(default=None, description="What the rule measured.")
    threshold: float | None = Field(default=None, description="What it was compared to (value >= threshold opens).")
    sample: int | None = Field(
        default=None, description="Calls the value was measured over; CUSUM: those since its sum was last zero."
    )
    reporters: int | None = Field(
        default=None, description="Distinct processes among the failures, counted up to the policy's minimum_reporters."
    )
    actor: str | None = Field(default=None, description="Who commanded it.")
    reason: str | None = Field(default=None, description="The reason the actor gave, or the rule in words.")
    failed: int | None = Field(default=None, description="Failed calls in the sample.")
    window_s: float | None = Field(
        default=None,
        description="Length of the time window the sample was taken from, in seconds; null: no such window.",
    )
    slow_call_duration_threshold_ms: float | None = Field(
        default=None, description="Slow-call rules: a call that took longer is slow, in milliseconds."
    )
    tolerable_failure_rate: float | None = Field(
        default=None, description="CUSUM: the failure rate that the policy takes as healthy."
    )
    calls_between_false_opens: float | None = Field(
        default=None, description="CUSUM: at that rate it opens by chance less than once in so many calls."
    )


class Lease(_Record):
    """A permit for one probe call, addressed to one process."""

    lease_id: str
    emitter_id: str
    expires_at: AwareDatetime


class Counts(_Record):
    """The circuit's window at the time of the record."""

    calls: int = 0
    failed: int = 0
    slow: int = 0
    ignored: int = 0
    rejected: int = 0
    wasted_tokens: int = 0
    consecutive_failures: int = 0
    total_calls: int = Field(default=0, description="Counted calls since the circuit was first seen.")
    total_failed: int = Field(default=0, description="Counted failures since the circuit was first seen.")


class Circuit(_Record):
    """A record is the whole state: a reader needs no history, and keeps the record with the highest ``version``."""

    circuit_id: str = Field(
        description="Equal to tool_name for scope tool; tool_name|user=… or tool_name|session=… else."
    )
    tool_name: str
    scope: Scope = "tool"
    state: CircuitState
    previous_state: CircuitState | None = Field(default=None, description="Null in the circuit's first record.")
    version: int = Field(ge=1, description="Rises with every record of this circuit.")
    generation: int = Field(ge=0, description="Rises with every change of state; results of an older one are dropped.")
    cause: Cause | None = None
    changed_at: AwareDatetime = Field(description="When the state changed, by the broker's clock.")
    open_until: AwareDatetime | None = Field(default=None, description="At or after this instant a probe may go.")
    attempt: int = Field(default=0, description="Opens in a row without a close between them.")
    leases: tuple[Lease, ...] = ()
    permits_left: int = Field(
        default=0, ge=0, description="Half-open: probes that may be asked for beside the leases that are out."
    )
    counts: Counts = Counts()
    last_error: str | None = Field(default=None, description="Type and message of the last counted failure.")
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    stands_until: AwareDatetime | None = Field(
        default=None, description="When what an operator commanded ends and the policy decides again; null: when told."
    )
