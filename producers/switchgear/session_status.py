"""SessionStatus: what a session has used, and what it has left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from switchgear_schemas.words import CircuitState


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """As of now. What is left is None where there is no limit."""

    session_id: str
    user_id: str
    calls: int
    """Calls that were let through, whether they have ended or not."""
    calls_left: int | None
    tokens: int
    tokens_left: int | None
    failures: int
    failures_left: int | None
    refused: int
    """Calls refused because a limit of this session was reached."""
    cost_usd: float
    exhausted: str | None
    """Which limit was reached, in words; None while calls are let through."""
    circuits: Mapping[str, CircuitState]
    """The session's own circuits that are not closed, by circuit id."""
