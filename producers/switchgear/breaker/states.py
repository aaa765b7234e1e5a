"""The states of a circuit, and the wait in the open state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from zlib import crc32

from switchgear_schemas.enums import CircuitState, Mode, Verb
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy


STATES: Final[tuple[CircuitState, ...]] = ("closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
"""The position is the number in snapshots and in the ``state`` gauge: only append."""

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

STATE_OF_VERB: Final[Mapping[Verb, CircuitState]] = {
    "force_open": "forced_open",
    "close": "closed",
    "reset": "closed",
    "disable": "disabled",
    "metrics_only": "metrics_only",
}
"""The state to which an operator's command moves a circuit."""

IDLE_S: Final = 3_600.0
"""Seconds without a result after which a closed circuit without evidence may retire. It must not retire at once: the failure of a
slow call that is still running would be lost."""
STALE_S: Final = 86_400.0
"""The same for a closed circuit with a CUSUM above zero. That long a sum lasts without calls, and a run of failures in a count window."""


COUNTED_S: Final = 60.0
"""How long before a circuit opened its outage began, if its policy counts calls and not seconds."""


def outage_began(policy: Policy, opened_at: float) -> float:
    """Return when the outage began that opened a circuit under ``policy``: at the earliest, as its window is."""
    timed = policy.sliding_window_type == "time"
    return opened_at - (float(policy.sliding_window_size) if timed else COUNTED_S)


class IllegalTransitionError(SwitchgearError):
    """A closed circuit cannot become half-open. Every other change of state is legal, as with resilience4j."""

    def __init__(self, circuit_id: str) -> None:
        super().__init__(
            f"{circuit_id} is closed and cannot become half_open.",
            hint="From closed: disabled, forced_open, metrics_only, open.",
        )


def spread(circuit_id: str, attempt: int) -> float:
    """Return a number in [0, 1) that looks random and is the same in every process and every replay."""
    return crc32(f"{circuit_id}#{attempt}".encode(errors="surrogatepass")) / 2**32


def wait_s(circuit_id: str, attempt: int, policy: Policy) -> float:
    """Return the seconds from open to the first probe.

    The formula is ``min(cap, wait * multiplier ** (attempt - 1)) * (1 - jitter * spread)``. ``attempt`` counts from 1. Jitter only
    shortens the wait, so it never exceeds the cap.
    """
    wait, cap = policy.wait_duration_in_open_state_s, policy.max_wait_duration_in_open_state_s
    try:
        wait *= float(policy.backoff_multiplier) ** (attempt - 1)
    except OverflowError:
        wait = cap
    return min(wait, cap) * (1 - policy.jitter * spread(circuit_id, attempt))


def open_until(circuit_id: str, attempt: int, policy: Policy, now: float, retry_at: float | None) -> float:
    """Return the instant of the first probe.

    ``retry_at`` is the end of the longest ``Retry-After`` that the tool asked for. It lengthens the wait up to the cap.
    """
    until = now + wait_s(circuit_id, attempt, policy)
    if retry_at is not None and policy.honor_retry_after:
        until = max(until, min(retry_at, now + policy.max_wait_duration_in_open_state_s))
    return until
