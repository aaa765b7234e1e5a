"""Put changes that are sent at one time into as few messages as their order allows."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from switchgear_alerts.durations import Duration
from switchgear_alerts.messages import GROUP, Change, ChangeKind

MOST_IN_A_MESSAGE: Final = 250
MANY: Final = 3
"""Circuits and families, from which on what changes together is one message."""
_LONGEST_GAP: Final = 4
"""Batches of a storm are at most so many intervals apart, and twice as many if they only have ends of incidents."""
_KINDS: Final[tuple[ChangeKind, ...]] = ("opened", "updated", "resolved")


class Grouping(BaseModel):
    """The ``[grouping]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wait: Duration = 5.0
    storm: int = Field(default=5, ge=2, le=1000)
    storm_interval: Duration = 30.0


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """Many changes went to a receiver. The next ones come in batches, each later than the one before.

    Attributes:
        batch_at: When the last batch was made, in seconds since 1970.
        gap_s: An opening waits for so long after it. Ends of incidents are less urgent: alone, they wait twice as long.
    """

    batch_at: float
    gap_s: float

    @property
    def over_at(self) -> float:
        """If no batch follows up to then, the storm is over."""
        return self.batch_at + 3 * self.gap_s

    def next_at(self, *, announcing: bool) -> float:
        """Return when the next batch may be made.

        Args:
            announcing: An opening waits.
        """
        return self.batch_at + (self.gap_s if announcing else 2 * self.gap_s)


def after_batch(storm: Storm | None, now: float, grouping: Grouping) -> Storm:
    """Return the storm after a batch: a new one, or one with a gap twice as long."""
    longest = _LONGEST_GAP * grouping.storm_interval
    gap = grouping.storm_interval if storm is None else min(2 * storm.gap_s, longest)
    return Storm(batch_at=now, gap_s=gap)


def group(changes: Iterable[Change], *, stormy: bool) -> list[list[Change]]:
    """Return the changes of each message, in the order in which to send the messages.

    A message has changes of one kind, and one change of a circuit at most. The changes of a circuit keep their order. What opened in
    one message is a group, and so is a family. Many groups are one message.

    Args:
        changes: In the order in which they happened.
        stormy: All changes of a kind are one message.
    """
    by_circuit: defaultdict[str, deque[Change]] = defaultdict(deque)
    for change in changes:
        by_circuit[change.facts.circuit_id].append(change)
    left, found = list(by_circuit.values()), list[list[Change]]()
    while left:
        for kind in _KINDS:
            next_ones = [waiting.popleft() for waiting in left if waiting and waiting[0].kind == kind]
            found += _messages(next_ones, stormy=stormy)
        left = [waiting for waiting in left if waiting]
    return found


def _messages(changes: Sequence[Change], *, stormy: bool) -> list[list[Change]]:
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(_group_of(change), []).append(change)
    if not stormy and len(groups) < MANY:
        return list(groups.values())
    return [list(changes[at : at + MOST_IN_A_MESSAGE]) for at in range(0, len(changes), MOST_IN_A_MESSAGE)]


def _group_of(change: Change) -> str:
    if change.thread.startswith(GROUP):
        return change.thread
    facts = change.facts
    return f"family {facts.family}" if facts.family else f"circuit {facts.circuit_id}"
