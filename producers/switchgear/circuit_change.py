"""CircuitChange: a circuit went from one state to another, as a hook is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from switchgear_schemas.words import CircuitState


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """One change of state, of this process's own circuit or of the fleet's."""

    circuit_id: str
    """The tool's name, or ``tool|user=…`` and ``tool|session=…`` for narrower circuits."""
    tool: str
    source: Literal["local", "fleet"]
    """Whose circuit it is."""
    previous: CircuitState | None
    """None where it isn't known: the first record of a fleet's circuit that this process has read."""
    state: CircuitState
    generation: int
    """Changes of state so far, of this very circuit."""
    reason: str = ""
    """The rule or command behind it, in words."""
    retry_after_s: float | None = None
    """Seconds until a probe may go; None where the circuit isn't open, or open until told otherwise."""
