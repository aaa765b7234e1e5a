"""Put changes that are sent at one time into messages: one each, one for a family, or one for all of a storm."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from switchgear_alerts.durations import Duration
from switchgear_alerts.messages import Change, ChangeKind

MOST_IN_A_MESSAGE: Final = 250
_KINDS: Final[tuple[ChangeKind, ...]] = ("opened", "updated", "resolved")


class Grouping(BaseModel):
    """The ``[grouping]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wait: Duration = 5.0
    storm: int = Field(default=10, ge=2, le=1000)
    storm_interval: Duration = 30.0


def group(changes: Iterable[Change], storm: int) -> list[list[Change]]:
    """Return the changes of each message, in the order in which to send the messages.

    A message has changes of one kind, and one change of a circuit at most. The changes of a circuit keep their order.

    Args:
        changes: In the order in which they happened.
        storm: From so many changes of a kind on there is one message for all of them.
    """
    by_circuit: defaultdict[str, deque[Change]] = defaultdict(deque)
    for change in changes:
        by_circuit[change.facts.circuit_id].append(change)
    found: list[list[Change]] = []
    while by_circuit:
        first = [waiting.popleft() for waiting in by_circuit.values()]
        by_circuit = defaultdict(deque, {key: waiting for key, waiting in by_circuit.items() if waiting})
        for kind in _KINDS:
            found += _messages([change for change in first if change.kind == kind], storm)
    return found


def _messages(changes: Sequence[Change], storm: int) -> list[list[Change]]:
    if len(changes) >= storm:
        return [list(changes[at : at + MOST_IN_A_MESSAGE]) for at in range(0, len(changes), MOST_IN_A_MESSAGE)]
    groups: dict[str, list[Change]] = {}
    for change in changes:
        facts = change.facts
        groups.setdefault(f"family {facts.family}" if facts.family else f"circuit {facts.circuit_id}", []).append(
            change
        )
    return list(groups.values())
