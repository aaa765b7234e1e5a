"""The contract of the compacted ``switchgear.circuits`` topic: the whole state of a circuit."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from switchgear_schemas.cause import Cause, Counts
from switchgear_schemas.enums import CircuitScope, CircuitState, ErrorClass, Mode, Scope
from switchgear_schemas.pacing import Pace
from switchgear_schemas.wire_record import Instant, WireRecord, readable

__all__ = ["Cause", "Circuit", "CircuitScope", "CircuitState", "Counts", "Lease", "Mode", "Scope"]


class Lease(msgspec.Struct, frozen=True):
    """A permit for one probe call, addressed to one process."""

    lease_id: str
    emitter_id: str
    expires_at: Instant


@readable
class Circuit(WireRecord, frozen=True, kw_only=True):
    """The whole state of a circuit. A reader needs no history: it keeps the record with the highest ``version``."""

    circuit_id: Annotated[
        str,
        Meta(
            description="Equal to tool_name for scope tool, else tool_name|user=…, tool_name|session=…, tool_name|tenant=…, tool_name@target or"
            " family|family. A name that looks like one of these is encoded: | is %7C, @ is %40, and % before such a code is %25."
        ),
    ]
    tool_name: Annotated[str, Meta(description="Name of the tool. Of a family's circuit: the family.")]
    family: Annotated[str | None, Meta(description="Family of the tool, such as mcp:weather. Null without one.")] = None
    scope: CircuitScope = "tool"
    state: CircuitState
    previous_state: Annotated[CircuitState | None, Meta(description="Null in the circuit's first record.")] = None
    version: Annotated[int, Meta(ge=1, description="Rises with every record of this circuit.")]
    generation: Annotated[
        int, Meta(ge=0, description="Rises with every change of state. Results of an older generation are dropped.")
    ]
    cause: Cause | None = None
    changed_at: Annotated[Instant, Meta(description="When the state changed, by the broker's clock.")]
    open_until: Annotated[Instant | None, Meta(description="From this instant on, a probe may be made.")] = None
    attempt: Annotated[
        int,
        Meta(
            description="How often the circuit opened without closing in between. A close by a ramp counts once the ramp is over."
        ),
    ] = 0
    admitted_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Closed: share of the calls that go. Below 1 while the tool recovers by a ramp.",
        ),
    ] = 1.0
    leases: tuple[Lease, ...] = ()
    permits_left: Annotated[
        int, Meta(ge=0, description="Half-open: probes that may still be requested, besides the granted leases.")
    ] = 0
    counts: Counts = Counts()
    last_error: Annotated[str | None, Meta(description="Type and message of the last counted failure.")] = None
    last_error_class: Annotated[ErrorClass | None, Meta(description="Class of the last counted failure.")] = None
    mode: Mode = "enforce"
    fallback: tuple[str, ...] = ()
    target: Annotated[
        str | None,
        Meta(
            description="What tells the targets of the tool apart, such as url.host, by the policy in force. Null: nothing does."
        ),
    ] = None
    overdue_after_ms: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="Calls that run longer are overdue, in milliseconds. Null: the fleet knows no limit."),
    ] = None
    stands_until: Annotated[
        Instant | None,
        Meta(
            description="When the operator's command ends and the policy decides again. Null: only a command ends it."
        ),
    ] = None
    admitted_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Calls a second that the tool takes, learned or stated. Null: no limit is known."),
    ] = None
    active_processes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Processes that called the tool within the last minute. Null: they aren't counted."),
    ] = None
    pace: Annotated[Pace | None, Meta(description="The tool's limits, by credential. Null: none is known.")] = None
    news: Annotated[
        Literal["state", "pace"],
        Meta(description="What it tells that the record before didn't. pace: nothing but the tool's limits."),
    ] = "state"
