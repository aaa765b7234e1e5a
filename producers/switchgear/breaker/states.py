"""The states of a circuit, and the one table of transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from zlib import crc32

from switchgear_schemas.enums import CircuitState, Mode
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


STATES: Final[tuple[CircuitState, ...]] = ("closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
"""Their position is their number in snapshots and in the ``state`` gauge: append only."""

_OPERATOR: Final[frozenset[CircuitState]] = frozenset({"forced_open", "disabled", "metrics_only"})

TRANSITIONS: Final[Mapping[CircuitState, frozenset[CircuitState]]] = {
    "closed": _OPERATOR | {"open"},
    "open": _OPERATOR | {"half_open", "closed"},
    "half_open": _OPERATOR | {"open", "closed"},
    "forced_open": frozenset({"closed", "open", "half_open", "disabled", "metrics_only"}),
    "disabled": frozenset({"closed", "open", "half_open", "forced_open", "metrics_only"}),
    "metrics_only": frozenset({"closed", "open", "half_open", "forced_open", "disabled"}),
}
"""The same set as resilience4j's ``StateTransition``: a closed circuit alone cannot jump to half-open."""

PASSING: Final[frozenset[CircuitState]] = frozenset({"closed", "disabled", "metrics_only"})
"""States in which every call is let through."""

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
    """A change of state that the table does not hold."""

    def __init__(self, circuit_id: str, state: CircuitState, wanted: CircuitState) -> None:
        allowed = ", ".join(sorted(TRANSITIONS[state]))
        super().__init__(f"{circuit_id} is {state} and cannot become {wanted}.", hint=f"From {state}: {allowed}.")
        self.state = state
        self.wanted = wanted


def check_transition(circuit_id: str, state: CircuitState, wanted: CircuitState) -> None:
    """Let a legal change pass.

    Raises:
        IllegalTransitionError: where :data:`TRANSITIONS` does not hold it; staying in a state is never a transition.
    """
    if wanted not in TRANSITIONS[state]:
        raise IllegalTransitionError(circuit_id, state, wanted)


_MOST_DOUBLINGS: Final = 10_000
"""Attempts beyond which the grown wait is the cap in any case; keeps the power finite."""


def spread(circuit_id: str, attempt: int) -> float:
    """A number in [0, 1) that looks random, and is the same in every process and in every replay."""
    return crc32(f"{circuit_id}#{attempt}".encode(errors="surrogatepass")) / 2**32


def wait_s(circuit_id: str, attempt: int, policy: BreakerPolicy) -> float:
    """Seconds from open to the first probe.

    ``min(cap, wait * multiplier ** (attempt - 1)) * (1 - jitter * spread)``: jitter only shortens, so that the cap
    is a cap.

    Args:
        circuit_id: Seeds the jitter.
        attempt: Opens in a row without a close between them, from 1.
        policy: Wait, multiplier, cap and jitter.
    """
    wait, cap = policy.wait_duration_in_open_state_s, policy.max_wait_duration_in_open_state_s
    if policy.backoff_multiplier > 1 and attempt > 1:
        try:
            wait *= policy.backoff_multiplier ** min(attempt - 1, _MOST_DOUBLINGS)
        except OverflowError:
            wait = cap
    return min(wait, cap) * (1 - policy.jitter * spread(circuit_id, attempt))


def open_until(circuit_id: str, attempt: int, policy: BreakerPolicy, now: float, retry_at: float | None) -> float:
    """The instant from which a probe may go.

    ``retry_at``, the end of the longest ``Retry-After`` heard of, lengthens the wait up to the cap.
    """
    until = now + wait_s(circuit_id, attempt, policy)
    if retry_at is not None and policy.honor_retry_after:
        until = max(until, min(retry_at, now + policy.max_wait_duration_in_open_state_s))
    return until
