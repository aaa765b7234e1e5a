"""The contract of the compacted ``switchgear.circuits`` topic: the whole state of a circuit."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    WithJsonSchema,
)

from switchgear_schemas.cause import Cause
from switchgear_schemas.enums import CircuitScope, CircuitState, ErrorClass, Mode, Scope
from switchgear_schemas.struct_schema import struct_schema

__all__ = ["Cause", "Circuit", "CircuitScope", "CircuitState", "Counts", "Lease", "Mode", "Scope"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, from_attributes=True)


def _read_cause(value: Any) -> Cause:
    return value if isinstance(value, Cause) else msgspec.convert(value, Cause, strict=False)


def _write_cause(cause: Cause, info: SerializationInfo) -> dict[str, Any]:
    fields = msgspec.structs.asdict(cause)
    return {name: value for name, value in fields.items() if value is not None or not info.exclude_none}


_CauseOfRecord = Annotated[
    Cause, PlainValidator(_read_cause), PlainSerializer(_write_cause), WithJsonSchema(struct_schema(Cause))
]


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
    """The whole state of a circuit. A reader needs no history: it keeps the record with the highest ``version``."""

    circuit_id: str = Field(
        description="Equal to tool_name for scope tool, else tool_name|user=…, tool_name|session=…, tool_name|tenant=…, tool_name@target or family|family. A"
        " name that looks like one of these is encoded: | is %7C, @ is %40, and % before such a code is %25."
    )
    tool_name: str = Field(description="Name of the tool. Of a family's circuit: the family.")
    family: str | None = Field(default=None, description="Family of the tool, such as mcp:weather. Null without one.")
    scope: CircuitScope = "tool"
    state: CircuitState
    previous_state: CircuitState | None = Field(default=None, description="Null in the circuit's first record.")
    version: int = Field(ge=1, description="Rises with every record of this circuit.")
    generation: int = Field(
        ge=0, description="Rises with every change of state. Results of an older generation are dropped."
    )
    cause: _CauseOfRecord | None = None
    changed_at: AwareDatetime = Field(description="When the state changed, by the broker's clock.")
    open_until: AwareDatetime | None = Field(default=None, description="From this instant on, a probe may be made.")
    attempt: int = Field(
        default=0,
        description="How often the circuit opened without closing in between. A close by a ramp counts once the ramp is over.",
    )
    admitted_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Closed: share of the calls that go. Below 1 while the tool recovers by a ramp.",
    )
    leases: tuple[Lease, ...] = ()
    permits_left: int = Field(
        default=0, ge=0, description="Half-open: probes that may still be requested, besides the granted leases."
    )
    counts: Counts = Counts()
    last_error: str | None = Field(default=None, description="Type and message of the last counted failure.")
    last_error_class: ErrorClass | None = Field(default=None, description="Class of the last counted failure.")
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    target: str | None = Field(
        default=None,
        description="What tells the targets of the tool apart, such as url.host, by the policy in force. Null: nothing does.",
    )
    overdue_after_ms: float | None = Field(
        default=None,
        ge=0,
        description="Calls that run longer are overdue, in milliseconds. Null: the fleet knows no limit.",
    )
    stands_until: AwareDatetime | None = Field(
        default=None,
        description="When the operator's command ends and the policy decides again. Null: only a command ends it.",
    )
