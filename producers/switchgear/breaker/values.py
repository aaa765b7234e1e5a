"""BreakerPermit, BreakerRejection, ProbeLease, Transition: what a breaker answers. Immutable values, cheap to make."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear_schemas.enums import CircuitState, ErrorClass, Status

if TYPE_CHECKING:
    import switchgear_schemas
    from switchgear_schemas.circuit import Counts
    from switchgear_schemas.policy import BreakerPolicy


class BreakerPermit(msgspec.Struct, frozen=True, gc=False):
    """The call may be made; hand the permit back with its result, or release it.

    Attributes:
        circuit_id: The circuit that let it through.
        generation: The circuit's generation then: a result of an older one is dropped.
        lease_id: Names the probe, where the call is one.
        window: Number of the fixed window the call began in; null where the window slides.
    """

    circuit_id: str
    generation: int
    lease_id: str | None = None
    window: int | None = None

    @property
    def probe(self) -> bool:
        """Whether the call tests a circuit that was open."""
        return self.lease_id is not None


class BreakerRejection(msgspec.Struct, frozen=True, gc=False):
    """The call must not be made. A value: raising would cost many times more.

    Attributes:
        circuit_id: The circuit that refused.
        state: Its state.
        generation: Its generation.
        retry_after_s: Seconds until a probe may go; null where no instant is known.
        cause: Why the circuit is in that state.
    """

    circuit_id: str
    state: CircuitState
    generation: int
    retry_after_s: float | None
    cause: Cause | None


class ProbeLease(msgspec.Struct, frozen=True, gc=False):
    """A permit for one probe call, addressed to one process; ``expires_at`` is seconds on the breaker's clock."""

    lease_id: str
    emitter_id: str
    expires_at: float


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A change that has to be published.

    ``previous == state`` with an unchanged generation is a change within a state: another lease, a later
    ``open_until``, a reset of a closed circuit, or what a ``metrics_only`` circuit would have done.

    Attributes:
        circuit_id: Which circuit.
        previous: Its state before.
        state: Its state now.
        generation: Its generation now.
        at: When, in seconds on the breaker's clock; a timer's transition carries the instant it was due.
        cause: Which rule with its value, threshold and sample, or which actor with a reason.
        open_until: From when a probe may go, in seconds.
        attempt: Opens in a row without a close between them.
        tally: See :attr:`counts`.
    """

    circuit_id: str
    previous: CircuitState
    state: CircuitState
    generation: int
    at: float
    cause: Cause
    open_until: float | None
    attempt: int
    tally: Tally

    @property
    def counts(self) -> Counts:
        """The evidence at that moment, before it was cleared."""
        return self.tally.for_record()


ANSWERED: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input"})
"""Errors in which the tool itself answered: where they do not count as failures they are proof that it works."""


class ResultKind(IntEnum):
    """What a call says about the tool's health."""

    SUCCESS = 0
    FAILURE = 1
    IGNORED = 2
    """Neither: cancelled, denied, unauthorised, ignored by a rule, or of a class that the policy does not count."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """A finished call, as a breaker counts it.

    Attributes:
        kind: Whether it counts as success, as failure or not at all.
        duration_ms: How long it took, in milliseconds.
        tokens: Work tokens of the call: input, output and cache creation, never cache reads.
        reporter: ``emitter_id`` of the process that called; empty where it is not known.
        retry_after_s: Wait that a rate-limited tool asked for, in seconds.
    """

    kind: ResultKind = ResultKind.SUCCESS
    duration_ms: float = 0.0
    tokens: int = 0
    reporter: str = ""
    retry_after_s: float | None = None


def result_kind(status: Status, error_class: ErrorClass | None, policy: BreakerPolicy) -> ResultKind:
    """Map an event's status and error class to the outcome that ``policy`` makes of it.

    A cancelled call is of class ``cancelled``, whatever class it names. A timeout without a class is of class ``timeout``,
    an error without one of class ``unknown``. A class in ``counted_error_classes`` is a failure. Of the others, those in which the tool answered (``tool``,
    ``invalid_input``) are successes, since the tool works: three answers "bad URL" in a row are no reason to close a
    healthy server to everybody (NousResearch/hermes-agent#11113). The rest is ignored; so is a success of class ``policy``,
    which its caller's rule takes out.

    Args:
        status: How the call ended; ``rejected`` was never made and is ignored.
        error_class: What kind of failure it was, where it was one.
        policy: Whose ``counted_error_classes`` decides.
    """
    if status == "success":
        return ResultKind.IGNORED if error_class == "policy" else ResultKind.SUCCESS
    if status == "rejected":
        return ResultKind.IGNORED
    kind: ErrorClass = error_class or ("timeout" if status == "timeout" else "unknown")
    if status == "cancelled":
        kind = "cancelled"
    if kind in policy.counted_error_classes:
        return ResultKind.FAILURE
    return ResultKind.SUCCESS if kind in ANSWERED else ResultKind.IGNORED


class Cause(msgspec.Struct, frozen=True):
    """The rule with its value, threshold and sample, or the actor with a reason."""

    rule: str
    value: float | None = None
    threshold: float | None = None
    sample: int | None = None
    reporters: int | None = None
    actor: str | None = None
    reason: str | None = None
    failed: int | None = None
    window_s: float | None = None
    slow_call_duration_threshold_ms: float | None = None
    tolerable_failure_rate: float | None = None
    calls_between_false_opens: float | None = None

    def for_record(self) -> switchgear_schemas.Cause:
        """The same as part of a circuit's record."""
        from switchgear_schemas.circuit import Cause as Told  # noqa: PLC0415 - see above

        return Told(**msgspec.structs.asdict(self))


class Tally(msgspec.Struct, frozen=True):
    """The window at one instant."""

    calls: int
    failed: int
    slow: int
    ignored: int
    rejected: int
    wasted_tokens: int
    consecutive_failures: int
    total_calls: int
    total_failed: int

    def for_record(self) -> switchgear_schemas.Counts:
        """The same as part of a circuit's record."""
        from switchgear_schemas.circuit import Counts  # noqa: PLC0415 - see above

        return Counts(**msgspec.structs.asdict(self))
