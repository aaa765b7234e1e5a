"""What a replay says: a JSON line a transition, and a summary."""

from __future__ import annotations

from typing import Any

import msgspec

from switchgear.breaker import Transition
from switchgear.replay.history import in_words


class Refused(msgspec.Struct):
    """Calls that would not have been made, by what they were in the history."""

    calls: int = 0
    failed: int = 0
    succeeded: int = 0
    slow: int = 0
    ignored: int = 0
    seconds_avoided: float = 0.0
    tokens_avoided: int = 0


class Summary(msgspec.Struct):
    """Totals of one replay.

    ``refused.failed`` is waste avoided, with its seconds and tokens; ``refused.succeeded`` was refused wrongly, except
    ``refused.slow`` of them, which took longer than the policy's slow-call threshold (their seconds are avoided too).
    """

    lines: int = 0
    invalid: int = 0
    stamped: int = 0
    calls: int = 0
    failed: int = 0
    never_made: int = 0
    circuits: int = 0
    opens: int = 0
    reopens: int = 0
    would_open: int = 0
    closes: int = 0
    probes: int = 0
    refused: Refused = msgspec.field(default_factory=Refused)


def transition_line(transition: Transition, tool_name: str) -> dict[str, Any]:
    """A transition in JSON's types."""
    until = transition.open_until
    return {
        "at": in_words(transition.at),
        "tool_name": tool_name,
        "circuit_id": transition.circuit_id,
        "previous": transition.previous,
        "state": transition.state,
        "generation": transition.generation,
        "attempt": transition.attempt,
        "cause": transition.cause.for_record().model_dump(exclude_none=True),
        "open_until": None if until is None else in_words(until),
        "counts": transition.counts.model_dump(exclude={"rejected"}),
    }
