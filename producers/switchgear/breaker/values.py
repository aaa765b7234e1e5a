"""The immutable values that go into a breaker and come out of it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from switchgear_schemas.cause import Cause, Counts
from switchgear_schemas.circuit_ids import circuit_id, tool_circuit
from switchgear_schemas.enums import CircuitState, ErrorClass, Status

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy


MAX_COUNT: Final = 2**62
"""Bound of a count, an offset or a version. It leaves room to count on for centuries within 64 bits."""
LEAST_OVERDUE_MS: Final = 5_000.0
"""No call is overdue earlier, unless the policy says from which duration on a call is slow."""
LATEST_S: Final = 253_000_000_000.0
"""Seconds since 1970, in the year 9987. Later instants have no date."""

MAX_CIRCUITS_PER_TOOL: Final = 1_000
LOOKED_AT: Final = 8
"""Circuits that an owner looks at for retirement when a new name comes. A look-up stays O(1)."""

Count = Annotated[int, Meta(ge=0, lt=MAX_COUNT)]
Instant = Annotated[float, Meta(ge=0, lt=LATEST_S)]


class BreakerPermit(msgspec.Struct, frozen=True, gc=False):
    """Permission to make a call. Hand it back with the call's result, or release it.

    Attributes:
        generation: The circuit's generation at that time. A result of an older generation is dropped.
        lease_id: Id of the probe, if the call is one.
        started_at: When the call was permitted, if the window is fixed: in another window its result is dropped.
    """

    circuit_id: str
    generation: int
    lease_id: str | None = None
    started_at: float | None = None

    @property
    def probe(self) -> bool:
        """Whether the call is a probe of a circuit that was open."""
        return self.lease_id is not None


class BreakerRejection(msgspec.Struct, frozen=True, gc=False):
    """Refusal of a call. It is a value, because an exception would cost many times more.

    ``retry_after_s`` are the seconds until the first probe, or None if that is not known. ``cause`` is why the circuit is in its
    state. During a ramp they are the seconds until the next step, and the cause ``recovery_ramp`` with the share.
    """

    circuit_id: str
    state: CircuitState
    generation: int
    retry_after_s: float | None
    cause: Cause | None


class ProbeLease(msgspec.Struct, frozen=True, gc=False):
    """A permit for one probe by one process. ``expires_at`` is in seconds on the breaker's clock."""

    lease_id: str
    emitter_id: str
    expires_at: float


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A change that must be published.

    If ``previous`` equals ``state`` and the generation is unchanged, something changed within the state: another lease, a later
    ``open_until``, the next step of a ramp, a reset of a closed circuit, or an open that a ``metrics_only`` circuit only reports.

    Attributes:
        previous: The state before.
        at: Seconds on the breaker's clock. The transition of a timer has the instant at which it was due.
        cause: The rule with its value, threshold and sample, or the actor with a reason.
        open_until: When the first probe is permitted, in seconds.
        attempt: Opens in a row without a close between them.
        counts: The evidence at that instant, before it was cleared.
    """

    circuit_id: str
    previous: CircuitState
    state: CircuitState
    generation: int
    at: float
    cause: Cause
    open_until: float | None
    attempt: int
    counts: Counts


ANSWERED: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input"})
"""Errors in which the tool itself answered. If they don't count as failures, they prove that it works."""


class ResultKind(IntEnum):
    """What a result says about the tool's health."""

    SUCCESS = 0
    FAILURE = 1
    IGNORED = 2
    """Nothing: the call was cancelled, denied or unauthorised, or its class is not counted by the policy. Different credentials
    that are rejected in a row say something all the same: see ``consecutive_auth_failures``."""
    OVERDUE = 3
    """It has not ended, and takes too long already. The result of its end has :attr:`Result.overdue_ms`."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """A finished call, as a breaker counts it, or one that is overdue.

    Attributes:
        kind: Whether it counts as a success, as a failure or not at all, or that it is overdue.
        duration_ms: How long it took, in milliseconds. Of an overdue call: so far.
        tokens: Tokens of input, output and cache creation. Cache reads don't count.
        reporter: The process that called, or the credential that it used at a gateway. Empty if it is not known.
        retry_after_s: Seconds that a rate-limited tool asked to wait.
        tool: The tool that was called, for the circuit of a family.
        weak: Its source hides the kind of error. Such a failure counts half, and only in the rate of failures.
        overdue_ms: How long a call that has ended had run when it was reported as overdue. None if it wasn't.
        credential: Hash of what the call signed in with, if the tool rejected that. Empty if it didn't, or if none is known.
    """

    kind: ResultKind = ResultKind.SUCCESS
    duration_ms: float = 0.0
    tokens: int = 0
    reporter: str = ""
    retry_after_s: float | None = None
    tool: str = ""
    weak: bool = False
    overdue_ms: float | None = None
    credential: str = ""


def result_kind(status: Status, error_class: ErrorClass | None, policy: Policy) -> ResultKind:
    """Return how a call with this status and error class counts under ``policy``.

    A cancelled call is of class ``cancelled``, whatever class it names. A timeout without a class is of class ``timeout``, an
    error without one of class ``unknown``. A class in ``counted_error_classes`` is a failure. Of the others, ``tool`` and
    ``invalid_input`` are successes, because the tool answered: three answers "bad URL" in a row must not open the circuit of a
    healthy server (NousResearch/hermes-agent#11113). The rest is ignored. So is a success of class ``policy``, which the
    caller's rule excluded, and a ``rejected`` call, which was never made.
    """
    if status == "success":
        return ResultKind.IGNORED if error_class == "policy" else ResultKind.SUCCESS
    if status == "overdue":
        return ResultKind.OVERDUE
    if status == "rejected":
        return ResultKind.IGNORED
    kind: ErrorClass = error_class or ("timeout" if status == "timeout" else "unknown")
    if status == "cancelled":
        kind = "cancelled"
    if kind in policy.counted_error_classes:
        return ResultKind.FAILURE
    return ResultKind.SUCCESS if kind in ANSWERED else ResultKind.IGNORED


FROM_SERVER: Final[frozenset[ErrorClass]] = ANSWERED | {"server", "rate_limited", "auth"}
"""Errors in which the server answered, whatever it said of the tool."""


def family_result_kind(status: Status, error_class: ErrorClass | None, policy: Policy) -> ResultKind:
    """Return how a call of one of its tools counts for a family, under the family's ``policy``.

    A class in ``counted_error_classes`` is a failure. Any other answer of the server is a success, also an error. The rest is
    ignored: calls that were cancelled or never made, and errors that don't show whether the server answered.
    """
    if status == "success":
        return ResultKind.IGNORED if error_class == "policy" else ResultKind.SUCCESS
    if status == "overdue":
        return ResultKind.OVERDUE
    if status in ("rejected", "cancelled"):
        return ResultKind.IGNORED
    kind: ErrorClass = error_class or ("timeout" if status == "timeout" else "unknown")
    if kind in policy.counted_error_classes:
        return ResultKind.FAILURE
    return ResultKind.SUCCESS if kind in FROM_SERVER else ResultKind.IGNORED


def is_split(policy: Policy) -> bool:
    """Return whether the policy keeps several circuits of a tool: of its users, sessions, tenants or targets."""
    return policy.scope != "tool" or policy.target is not None


def circuit_id_of(
    tool_name: str, policy: Policy, user_id: str = "", session_id: str = "", target: str = "", tenant: str = ""
) -> str:
    """Return the id of the circuit that counts a call: the target's if there is one, else by the policy's scope.

    Without the user, session or tenant that the scope needs, it is the tool's own.
    """
    if target:
        return circuit_id(tool_name, "target", target)
    if policy.scope == "user" and user_id:
        return circuit_id(tool_name, "user", user_id)
    if policy.scope == "session" and session_id:
        return circuit_id(tool_name, "session", session_id)
    if policy.scope == "tenant" and tenant:
        return circuit_id(tool_name, "tenant", tenant)
    return tool_circuit(tool_name)
