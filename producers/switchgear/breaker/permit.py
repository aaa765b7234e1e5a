"""Permit, Rejection, ProbeLease, Transition: what a breaker answers. Immutable values, cheap to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from switchgear.breaker.cause import Cause, Tally
from switchgear_schemas.words import CircuitState

if TYPE_CHECKING:
    from switchgear_schemas.circuit import Counts


class Permit(msgspec.Struct, frozen=True, gc=False):
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


class Rejection(msgspec.Struct, frozen=True, gc=False):
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
