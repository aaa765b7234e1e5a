"""The states of a circuit, the transitions between them, and the wait in the open state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from zlib import crc32

from switchgear_schemas.enums import CircuitState, Mode
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


STATES: Final[tuple[CircuitState, ...]] = ("closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
"""The position is the number in snapshots and in the ``state`` gauge: only append."""

_OPERATOR: Final[frozenset[CircuitState]] = frozenset({"forced_open", "disabled", "metrics_only"})

TRANSITIONS: Final[Mapping[CircuitState, frozenset[CircuitState]]] = {
    "closed": _OPERATOR | {"open"},
    "open": _OPERATOR | {"half_open", "closed"},
    "half_open": _OPERATOR | {"open", "closed"},
    "forced_open": frozenset({"closed", "open", "half_open", "disabled", "metrics_only"}),
    "disabled": frozenset({"closed", "open", "half_open", "forced_open", "metrics_only"}),
    "metrics_only": frozenset({"closed", "open", "half_open", "forced_open", "disabled"}),
}
"""The same set as resilience4j's ``StateTransition``: the only change left out is closed to half-open."""

PASSING: Final[frozenset[CircuitState]] = frozenset({"closed", "disabled", "metrics_only"})
"""States in which every call is permitted."""

COUNTING: Final[frozenset[CircuitState]] = frozenset({"closed", "metrics_only"})
"""States in which every result is evidence."""

STATE_OF_MODE: Final[Mapping[Mode, CircuitState]] = {
    "enforce": "closed",
    "metrics_only": "metrics_only",
    "forced_open": "forced_open",
    "disabled": "disabled",
}
"""The state in which a policy's mode starts a circuit."""


class IllegalTransitionError(SwitchgearError):
    """The table of transitions does not have this change of state."""

    def __init__(self, circuit_id: str, state: CircuitState, wanted: CircuitState) -> None:
        allowed = ", ".join(sorted(TRANSITIONS[state]))
        super().__init__(f"{circuit_id} is {state} and cannot become {wanted}.", hint=f"From {state}: {allowed}.")
        self.state = state
        self.wanted = wanted


def check_transition(circuit_id: str, state: CircuitState, wanted: CircuitState) -> None:
    """Check that a change of state is legal.

    Raises:
        IllegalTransitionError: :data:`TRANSITIONS` does not have it. Staying in a state is not a transition.
    """
    if wanted not in TRANSITIONS[state]:
        raise IllegalTransitionError(circuit_id, state, wanted)


_MOST_DOUBLINGS: Final = 10_000
"""Beyond so many attempts the wait is the cap in any case. The bound keeps the power finite."""


def spread(circuit_id: str, attempt: int) -> float:
    """Return a number in [0, 1) that looks random and is the same in every process and every replay."""
    return crc32(f"{circuit_id}#{attempt}".encode(errors="surrogatepass")) / 2**32


def wait_s(circuit_id: str, attempt: int, policy: BreakerPolicy) -> float:
    """Return the seconds from open to the first probe.

    The formula is ``min(cap, wait * multiplier ** (attempt - 1)) * (1 - jitter * spread)``. Jitter only shortens the wait, so
    it never exceeds the cap.

    Args:
        circuit_id: Seed of the jitter.
        attempt: Opens in a row without a close between them, from 1.
        policy: Has the wait, the multiplier, the cap and the jitter.
    """
    wait, cap = policy.wait_duration_in_open_state_s, policy.max_wait_duration_in_open_state_s
    if policy.backoff_multiplier > 1 and attempt > 1:
        try:
            wait *= policy.backoff_multiplier ** min(attempt - 1, _MOST_DOUBLINGS)
        except OverflowError:
            wait = cap
    return min(wait, cap) * (1 - policy.jitter * spread(circuit_id, attempt))


def open_until(circuit_id: str, attempt: int, policy: BreakerPolicy, now: float, retry_at: float | None) -> float:
    """Return the instant of the first probe.

    ``retry_at`` is the end of the longest ``Retry-After`` that the tool asked for. It lengthens the wait up to the cap.
    """
    until = now + wait_s(circuit_id, attempt, policy)
    if retry_at is not None and policy.honor_retry_after:
        until = max(until, min(retry_at, now + policy.max_wait_duration_in_open_state_s))
    return until
