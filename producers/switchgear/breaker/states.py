"""The states of a circuit, and the one table of transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.words import CircuitState, Mode

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
