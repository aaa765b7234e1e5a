"""The model of an execution. The SDK makes its events from it, so this module needs neither pydantic nor a decoder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from switchgear_schemas.enums import (
    MAX_CREDENTIAL_LENGTH,
    MAX_NAME_LENGTH,
    MOST_BYTES,
    MOST_MS,
    MOST_TOKENS,
    MOST_USD,
    ErrorClass,
    Evidence,
    ServedBy,
    Status,
)

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
ShortText = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
Hash = Annotated[str, Meta(max_length=MAX_CREDENTIAL_LENGTH)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, Meta(ge=0)]
Milliseconds = Annotated[float, Meta(ge=0, le=MOST_MS)]
Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Size = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
Dollars = Annotated[float, Meta(ge=0, le=MOST_USD)]


class Execution(msgspec.Struct, gc=False):
    """One call of one tool, as its caller saw it. Only ``tool_name`` and ``status`` are required.

    Unknown fields are kept. A null field is the same as an absent one. A status ``error`` or ``timeout`` with the class ``cancelled``
    becomes ``cancelled``. Times are in UTC, durations in milliseconds, sizes in bytes or characters.
    """

    # The one definition of each field: limits, default, description. The order is that of an encoded event, and the guard makes events by
    # position (switchgear.emitter.event): append new fields.

    tool_name: Annotated[Name, Meta(description="Name of the tool, e.g. mcp:weather:get_forecast.")]
    status: Annotated[
        Status,
        Meta(
            description="How the call ended. cancelled: the caller gave up. rejected: a circuit refused the call, so"
            " it was not made. overdue: it has not ended and took too long already; the event is a report"
            " about it, and is never stored."
        ),
    ]
    execution_time_ms: Annotated[
        Milliseconds | None,
        Meta(description="Duration in milliseconds, at most a year. Of an overdue call: the time until the report."),
    ] = 0.0
    generation: Annotated[
        Count | None, Meta(description="Generation of the circuit that permitted the call. Null if no guard asked.")
    ] = None
    lease_id: Annotated[str | None, Meta(description="Probe lease the call was made under.")] = None
    metric_id: Annotated[
        UUID | None, Meta(description="Identifier of the call. A version 7 UUID where Switchgear makes it.")
    ] = None
    tenant: Annotated[
        ShortText | None, Meta(description="The tenant whose call it was. Empty with a single tenant.")
    ] = ""
    user_id: Annotated[str | None, Meta(description="User on whose behalf the call was made.")] = ""
    session_id: Annotated[str | None, Meta(description="Agent session.")] = None
    request_id: Annotated[str | None, Meta(description="Request within the session.")] = None
    error_type: Annotated[str | None, Meta(description="Type of the error, e.g. an exception's class name.")] = None
    error_message: Annotated[
        str | None, Meta(description="Message of the error, redacted and truncated by the emitter.")
    ] = None
    error_class: Annotated[
        ErrorClass | None,
        Meta(
            description="Kind of the failure, which decides whether it counts. A success of class policy counts in no"
            " circuit."
        ),
    ] = None
    retry_after_s: Annotated[
        Amount | None, Meta(description="Seconds that a rate-limited tool asked its caller to wait.")
    ] = None
    parameters_hash: Annotated[
        str | None, Meta(description="Keyed hash of the parameters, to find repeated calls.")
    ] = None
    input_size: Annotated[Size | None, Meta(description="Size of the input in bytes or characters.")] = 0
    output_size: Annotated[Size | None, Meta(description="Size of the output in bytes or characters.")] = 0
    input_tokens: Annotated[Tokens | None, Meta(description="Model tokens spent on the call's input.")] = 0
    output_tokens: Annotated[Tokens | None, Meta(description="Model tokens spent on the call's output.")] = 0
    cache_creation_tokens: Annotated[Tokens | None, Meta(description="Model tokens written to a prompt cache.")] = 0
    cost_usd: Annotated[Dollars | None, Meta(description="Cost of the call in US dollars.")] = 0.0
    served_by: Annotated[ServedBy | None, Meta(description="What produced the result.")] = "call"
    fallback_tool: Annotated[str | None, Meta(description="Tool that answered instead.")] = None
    emitter_id: Annotated[str | None, Meta(description="Process that emitted the event.")] = ""
    service: Annotated[str | None, Meta(description="Service that process belongs to.")] = ""
    probe_requested: Annotated[
        bool | None, Meta(description="The refused caller asks the owner for a probe lease.")
    ] = False
    traceparent: Annotated[str | None, Meta(description="W3C trace context.")] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Anything else. Of a rejected call: refused (how many calls the event stands for) and"
            " refused_by (local, fleet, session, duplicate, caller, credential, pace); of a process's own"
            " circuit (local) also state, scope, retry_after_s, cause, last_error."
        ),
    ] = None
    recorded_at: Annotated[
        datetime | None,
        Meta(description="When the call ended, by the caller's clock.", extra_json_schema={"format": "date-time"}),
    ] = None
    family_generation: Annotated[
        Count | None,
        Meta(
            description="Generation of the family's circuit when it permitted or refused the call. Null if no guard"
            " asked or knew it."
        ),
    ] = None
    family_lease_id: Annotated[
        str | None, Meta(description="Probe lease of the family's circuit that the call was made under.")
    ] = None
    target: Annotated[
        ShortText | None,
        Meta(description="What the call was about, such as a host, if the tool's policy keeps targets apart."),
    ] = None
    overdue_ms: Annotated[
        Milliseconds | None,
        Meta(
            description="How long the call had run when it was reported as overdue, in milliseconds. Null if it wasn't."
        ),
    ] = None
    credential: Annotated[
        Hash | None, Meta(description="Keyed hash of what the call signed in with, never the credential itself.")
    ] = None
    evidence: Annotated[
        Evidence | None,
        Meta(
            description="What the event's source could tell about a failure. status_only: it hides the kind of error."
        ),
    ] = "full"
    reporter: Annotated[
        str | None,
        Meta(
            description="Credential that circuits count as the reporter. A gateway sets it. Empty: the process counts."
        ),
    ] = ""

    @property
    def counted_reporter(self) -> str:
        """Whom circuits count as the reporter: the credential that a gateway names, else the process."""
        return self.reporter or self.emitter_id or ""

    @property
    def recorded_s(self) -> float | None:
        """``recorded_at`` in seconds since 1970. An instant without a time zone is UTC."""
        at = self.recorded_at
        return None if at is None else (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
