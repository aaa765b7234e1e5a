"""The shapes of the pages beside ``now``: calls, a tool, the timeline, the session, actions, dead letters, the lab, SQL. See ``shapes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from switchgear_api.console.shapes import State, Tool, Waste
from switchgear_schemas.enums import CircuitScope


class Call(TypedDict):
    """A stored call."""

    metric_id: str
    at: str
    tenant: str | None
    tool: str
    status: str
    error_class: str | None
    error_type: str | None
    error_message: str | None
    duration_ms: int
    service: str | None
    process: str | None
    user_id: str | None
    session_id: str | None
    request_id: str | None
    tokens: int
    usd: float
    served_by: str
    fallback_tool: str | None
    generation: int
    lease_id: str | None
    traceparent: str | None
    parameters_hash: str | None
    input_size: int
    output_size: int
    metadata: str | None


class FleetSeries(TypedDict):
    """Counts over time, one a step."""

    step_s: int
    at: Sequence[str]
    calls: Sequence[int]
    judged: Sequence[int]
    """Calls that say how the tool is: the error rate is of these."""
    errors: Sequence[int]


class Series(FleetSeries):
    """The same with what only a tool's has."""

    timeouts: Sequence[int]
    refused: Sequence[int]
    p50_ms: Sequence[float | None]
    p95_ms: Sequence[float | None]
    p99_ms: Sequence[float | None]


class Span(TypedDict):
    """A state over a period."""

    at: str
    until: str | None
    state: State
    why: NotRequired[str | None]


class PolicyValue(TypedDict):
    """A setting of a policy, and where it comes from."""

    setting: str
    value: Any
    source: str
    pattern: str | None


ErrorPattern = TypedDict(
    "ErrorPattern",
    {
        "template": str,
        "class": str,
        "type": str | None,
        "count": int,
        "first_at": str,
        "last_at": str,
        "example": str,
    },
)


class Caller(TypedDict):
    """A process that called a tool."""

    service: str | None
    host: str | None
    calls: int
    errors: int
    last_at: str


class ToolAnswer(TypedDict):
    """The page of a tool."""

    checked_at: str
    since: str
    tool: Tool
    states: Sequence[Span]
    series: Series
    errors: Sequence[ErrorPattern]
    slow: Sequence[Call]
    recent: Sequence[Call]
    waste: Waste
    policy: Sequence[PolicyValue]
    policy_error: str | None
    """Why the policy is unknown."""
    callers: Sequence[Caller]


Transition = TypedDict(
    "Transition",
    {
        "at": str,
        "circuit_id": str,
        "tool": str,
        "scope": CircuitScope,
        "from": State | None,
        "to": State,
        "rule": str | None,
        "why": str | None,
        "actor": str | None,
        "version": int,
    },
)


class Mark(TypedDict):
    """What an operator did, on the timeline."""

    at: str
    kind: str
    text: str


class TimelineAnswer(TypedDict):
    """The page ``timeline``."""

    since: str
    transitions: Sequence[Transition]
    """The newest ones, oldest first."""
    truncated: bool
    """Whether older ones of the period are left out."""
    series: FleetSeries
    marks: Sequence[Mark]


class SessionAnswer(TypedDict):
    """Who has logged in."""

    name: str
    roles: Sequence[str]
    tenant: str | None
    tools: Sequence[str]
    csrf: str | None
    login: Literal["none", "token", "oidc"]
    expires_at: str | None


class CommandAnswer(TypedDict):
    """What came of a command. A dry run has the states alone."""

    audit_id: NotRequired[str]
    command_id: NotRequired[str]
    outcome: NotRequired[str]
    detail: NotRequired[str | None]
    undoable: NotRequired[bool]
    circuit: NotRequired[Mapping[str, Any] | None]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


class AuditItem(TypedDict):
    """What an operator did."""

    audit_id: str
    at: str
    actor: str
    address: str
    action: str
    subject: str
    reason: str
    outcome: str
    detail: str | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    expires_at: str | None
    undo_of: str | None
    undone_by: str | None
    undoable: bool


class DeadLetter(TypedDict):
    """A message that was rejected. Only the page of one letter has its bytes."""

    id: str
    key: str
    topic: str
    partition: int
    offset: int
    at: str
    written_at: str
    tool: str
    component: str
    field: str | None
    reason: str
    bytes: int
    truncated: bool
    original_key: NotRequired[str | None]
    text: NotRequired[str | None]
    hex: NotRequired[str | None]


class ReplayTransition(TypedDict):
    """A change of state in a replay."""

    at: str
    tool: str
    state: State
    rule: str


class ReplayResult(TypedDict):
    """What a policy would have done."""

    calls: int
    failed: int
    opens: int
    would_open: int
    false_opens: int
    calls_saved: int
    calls_lost: int
    tokens_saved: int
    usd_saved: float
    seconds_saved: float
    minutes_open: float
    transitions: Sequence[ReplayTransition]


class SqlColumn(TypedDict):
    """A column of an answer."""

    name: str
    type: str


class SqlAnswer(TypedDict):
    """The rows of a query."""

    columns: Sequence[SqlColumn]
    rows: Sequence[Sequence[Any]]
    row_count: int
    truncated: bool
    elapsed_s: float
