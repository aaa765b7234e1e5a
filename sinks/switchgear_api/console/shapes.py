"""The shapes of circuits, tools and the page ``now``. ``make schemas`` writes them, and ``page_shapes``, as TypeScript.

Times are ISO 8601 texts; durations end in ``_s`` or ``_ms``; money is in ``_usd`` or ``usd``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from switchgear_schemas.enums import CircuitState
from switchgear_sinks.health.verdict import Kind

State = Literal[CircuitState, "unknown"]
"""``unknown``: the reader may not see circuits."""
Level = Literal["bad", "note"]
"""``bad``: decisions, or what is shown, suffer."""


class Waste(TypedDict):
    """What failed calls cost."""

    calls: int
    tokens: int
    usd: float
    seconds: float


class Saved(TypedDict):
    """What refused calls would have cost."""

    refused: int
    tokens: int
    usd: float
    seconds: float
    estimated: bool


class Stats(TypedDict):
    """The calls of a tool in the window."""

    calls: int
    errors: int
    timeouts: int
    caller_errors: int
    cancelled: int
    ignored: int
    """They succeeded, and their callers ignore them."""
    refused: int
    error_rate: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class Minutes(TypedDict):
    """A number a minute, the oldest first."""

    calls: Sequence[int]
    errors: Sequence[int]


class Action(TypedDict):
    """What an operator should do, and what one can do."""

    text: str | None
    verbs: Sequence[str]


class Lease(TypedDict):
    """The permission to probe."""

    holder: str
    expires_at: str | None


class Override(TypedDict):
    """The command that decides for a circuit."""

    command: str
    actor: str | None
    reason: str | None
    at: str | None


class Pace(TypedDict):
    """A tool's rate limit, and what was asked for and waited for in the last seconds."""

    kept: bool
    """Whether processes keep it. Otherwise it is only shown."""
    rate: float
    """Calls a second that the tool takes."""
    period_s: float
    """Seconds in which the rate is kept."""
    processes: int | None
    asked: float
    """Calls a second that processes asked for."""
    limited: int
    """Calls that the tool refused as too many."""
    refused: int
    """Calls that were not made, because their turn came too late."""
    waited: int
    """Calls that waited for their turn."""
    wait_s: float
    """How long one of those waited, on average."""
    paused_until: str | None
    """Until when the tool asked to wait."""


class CircuitRecord(TypedDict):
    """A circuit's record. All but the first of these fields are null for a tool without one, where they can be."""

    tool: str
    circuit_id: str
    family: str | None
    state: State
    since: str | None
    version: int
    why: str | None
    rule: str | None
    value: float | None
    threshold: float | None
    sample: int | None
    reporters: int | None
    last_error: str | None
    next_probe_at: str | None
    lease: Lease | None
    permits_left: int
    ramp: float | None
    pace: Pace | None
    expires_at: str | None
    override: Override | None


class Advice(TypedDict):
    """What kind of failure a tool has, and what to do about it in this state."""

    kind: Kind | None
    action: Action


class Circuit(CircuitRecord):
    """A circuit as the stream brings it: a tool's with advice, or a family's."""

    kind: NotRequired[Kind | None]
    action: NotRequired[Action]
    is_family: NotRequired[bool]


class Blast(TypedDict):
    """Whom an outage touches."""

    services: int
    users: int
    sessions: int
    top_services: Sequence[str]


class Trouble(Advice):
    """What a refresh brings for tools in trouble alone."""

    opened_at: str | None
    """When it began to refuse calls. Failed probes later don't change it."""
    opened_why: str | None
    wasted: Waste
    saved: Saved
    blast: Blast | None
    local_opens: Sequence[Mapping[str, Any]]
    """Processes that opened a circuit of their own."""
    scoped_open: int
    """Circuits of single users and sessions that refuse calls."""


class Tool(CircuitRecord, Trouble):
    """A row of the page ``now``."""

    stats: Stats
    beat: Minutes
    last_call_at: str | None
    """When the newest event of the last hour arrived, of a call or of a refused one. Null if there is none."""


class Family(CircuitRecord):
    """The circuit of a server, and its tools."""

    tools: Sequence[str]
    local_opens: Sequence[Mapping[str, Any]]


class Fleet(TypedDict):
    """The totals."""

    calls: int
    errors: int
    error_rate: float
    refused: int
    tools: int
    open: int
    half_open: int
    wasted: Waste
    saved: Saved


class Problem(TypedDict):
    """A part of the system that does not work."""

    component: str
    level: Level
    what: str
    since: str | None
    means: str
    todo: str


class Freshness(TypedDict):
    """How old the data is, and what is wrong with the system, the worst first."""

    newest_event_at: str | None
    circuits_fresh: bool
    circuits_age_s: float | None
    problems: Sequence[Problem]


class NowAnswer(TypedDict):
    """The page ``now``."""

    checked_at: str
    minutes: int
    live_id: str | None
    """The newest live event that the answer has."""
    data: Freshness
    fleet: Fleet
    tools: Sequence[Tool]
    families: Sequence[Family]


class LastMinute(TypedDict):
    """The present minute."""

    calls: int
    errors: int


class Numbers(TypedDict):
    """The numbers of a tool that changed."""

    stats: Stats
    beat_now: LastMinute
    last_call_at: str | None


class StatsEvent(TypedDict):
    """An event of the stream: numbers that changed."""

    tools: Mapping[str, Numbers]
    fleet: NotRequired[Fleet]


class Heartbeat(Freshness):
    """An event of the stream: it is alive."""

    now: str


class WrongClock(TypedDict):
    """A process whose clock is wrong. ``text`` has no capital letter and no full stop; ``todo`` is a sentence."""

    emitter_id: str
    service: str
    text: str
    todo: str
