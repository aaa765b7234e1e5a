"""The contract of the ``switchgear.executions`` topic: one event per tool call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from switchgear_schemas.enums import (
    EARLIEST,
    LATEST,
    MAX_CREDENTIAL_LENGTH,
    MAX_EVENT_BYTES,
    MAX_NAME_LENGTH,
    MOST_BYTES,
    MOST_MS,
    MOST_TOKENS,
    MOST_USD,
    ErrorClass,
    Evidence,
    ServedBy,
    Status,
    normal_status,
)
from switchgear_schemas.ids import mint_metric_id

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_EVENT_BYTES",
    "MAX_NAME_LENGTH",
    "ErrorClass",
    "Evidence",
    "ServedBy",
    "Status",
    "ToolExecution",
    "ToolMetric",
]


def _in_utc(moment: datetime) -> datetime:
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if not EARLIEST <= aware < LATEST:
        raise ValueError(f"must lie between {EARLIEST.year} and {LATEST.year}, got {aware.isoformat()}")
    return aware


def _text(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value


Moment = Annotated[datetime, AfterValidator(_in_utc)]
"""An instant. One without a time zone is taken as UTC."""
Identifier = Annotated[str, BeforeValidator(_text)]
Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
Size = Annotated[int, Field(ge=0, le=MOST_BYTES)]


class ToolExecution(BaseModel):
    """One call of one tool, as its caller saw it. Only ``tool_name`` and ``status`` are required.

    Unknown fields are kept. A null field is the same as an absent one. A status ``error`` or ``timeout`` with the class ``cancelled``
    becomes ``cancelled``. Times are in UTC, durations in milliseconds, sizes in bytes or characters.

    Raises:
        pydantic.ValidationError: A value has the wrong type or is out of range. The error names the field.
    """

    model_config = ConfigDict(extra="allow", frozen=True, ser_json_timedelta="float", allow_inf_nan=False)

    metric_id: UUID = Field(
        default_factory=lambda: UUID(mint_metric_id()),
        description="Identifier of the call. A version 7 UUID where Switchgear makes it.",
    )
    tenant: str = Field(
        default="", max_length=MAX_NAME_LENGTH, description="The tenant whose call it was. Empty with a single tenant."
    )
    tool_name: str = Field(
        min_length=1, max_length=MAX_NAME_LENGTH, description="Name of the tool, e.g. mcp:weather:get_forecast."
    )
    target: str | None = Field(
        default=None,
        max_length=MAX_NAME_LENGTH,
        description="What the call was about, such as a host, if the tool's policy keeps targets apart.",
    )
    user_id: str = Field(default="", description="User on whose behalf the call was made.")
    session_id: Identifier | None = Field(default=None, description="Agent session.")
    request_id: Identifier | None = Field(default=None, description="Request within the session.")
    credential: str | None = Field(
        default=None,
        max_length=MAX_CREDENTIAL_LENGTH,
        description="Keyed hash of what the call signed in with, never the credential itself.",
    )
    status: Status = Field(
        description="How the call ended. cancelled: the caller gave up. rejected: a circuit refused the call, so it was not made."
        " overdue: it has not ended and took too long already; the event is a report about it, and is never stored."
    )
    execution_time_ms: float = Field(
        default=0.0,
        ge=0,
        le=MOST_MS,
        description="Duration in milliseconds, at most a year. Of an overdue call: the time until the report.",
    )
    overdue_ms: float | None = Field(
        default=None,
        ge=0,
        le=MOST_MS,
        description="How long the call had run when it was reported as overdue, in milliseconds. Null if it wasn't.",
    )
    error_type: str | None = Field(default=None, description="Type of the error, e.g. an exception's class name.")
    error_message: str | None = Field(
        default=None, description="Message of the error, redacted and truncated by the emitter."
    )
    error_class: ErrorClass | None = Field(
        default=None,
        description="Kind of the failure, which decides whether it counts. A success of class policy counts in no circuit.",
    )
    evidence: Evidence = Field(
        default="full",
        description="What the event's source could tell about a failure. status_only: it hides the kind of error.",
    )
    retry_after_s: float | None = Field(
        default=None, ge=0, description="Seconds that a rate-limited tool asked its caller to wait."
    )
    parameters_hash: str | None = Field(
        default=None, description="Keyed hash of the parameters, to find repeated calls."
    )
    input_size: Size = Field(default=0, description="Size of the input in bytes or characters.")
    output_size: Size = Field(default=0, description="Size of the output in bytes or characters.")
    input_tokens: Tokens = Field(default=0, description="Model tokens spent on the call's input.")
    output_tokens: Tokens = Field(default=0, description="Model tokens spent on the call's output.")
    cache_creation_tokens: Tokens = Field(default=0, description="Model tokens written to a prompt cache.")
    cost_usd: float = Field(default=0.0, ge=0, le=MOST_USD, description="Cost of the call in US dollars.")
    served_by: ServedBy = Field(default="call", description="What produced the result.")
    fallback_tool: str | None = Field(default=None, description="Tool that answered instead.")
    emitter_id: str = Field(default="", description="Process that emitted the event.")
    reporter: str = Field(
        default="",
        description="Credential that circuits count as the reporter. A gateway sets it. Empty: the process counts.",
    )
    service: str = Field(default="", description="Service that process belongs to.")
    generation: int | None = Field(
        default=None,
        ge=0,
        description="Generation of the circuit that permitted the call. Null if no guard asked.",
    )
    lease_id: str | None = Field(default=None, description="Probe lease the call was made under.")
    family_generation: int | None = Field(
        default=None,
        ge=0,
        description="Generation of the family's circuit when it permitted or refused the call. Null if no guard asked or knew it.",
    )
    family_lease_id: str | None = Field(
        default=None, description="Probe lease of the family's circuit that the call was made under."
    )
    probe_requested: bool = Field(default=False, description="The refused caller asks the owner for a probe lease.")
    traceparent: str | None = Field(default=None, description="W3C trace context.")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Anything else. Of a rejected call: refused (how many calls the event stands for) and refused_by"
        " (local, fleet, session, duplicate, caller, credential); of a process's own circuit (local) also state, scope, retry_after_s, cause,"
        " last_error.",
    )
    recorded_at: Moment = Field(
        default_factory=lambda: datetime.now(UTC), description="When the call ended, by the caller's clock."
    )

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = {name: value for name, value in data.items() if value is not None or name not in cls.model_fields}
        if "status" in given:
            given["status"] = normal_status(given["status"], given.get("error_class"))
        return given

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-ready values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ToolExecution:
        """Make an execution from the values of :meth:`to_dict`, or from any other JSON object that is valid."""
        return cls.model_validate(data)


ToolMetric = ToolExecution
"""The name of the same model in the reference documents."""
