"""Consumer groups as the brokers know them: their members, and how they get on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient

from switchgear_api.console.problems import Group

_NEVER_USED: Final = "Dead"
"""How Kafka names the state of a group that it does not know."""


@dataclass(frozen=True, slots=True)
class GroupLook:
    """One look at a group.

    Args:
        members: Its processes.
        used: Whether it has ever had one.
        done: The sum of its committed offsets.
        lag: Records that it has not read yet.
    """

    members: int
    used: bool
    done: int
    lag: int


async def look_at(admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, group: str) -> GroupLook:
    """Ask the brokers about a group.

    Raises:
        KafkaError: A broker does not answer, or refuses to.
    """
    committed = await admin.list_consumer_group_offsets(group)
    places = list(committed)
    starts = await consumer.beginning_offsets(places) if places else {}
    ends = await consumer.end_offsets(places) if places else {}
    # One group at a time: aiokafka reads an answer about several groups wrongly.
    members, state = described(await admin.describe_consumer_groups([group]), group)
    done = sum(entry.offset for entry in committed.values())
    return GroupLook(members, state != _NEVER_USED, done, lag_of(committed, starts, ends))


def described(answers: list[Any], group: str) -> tuple[int, str]:
    """Return how many members a group has, and its state, from the answers about it."""
    for answer in answers:
        for each in answer.groups:
            if each[1] == group:
                return len(each[-2 if answer.API_VERSION >= 3 else -1]), str(each[2])
    return 0, _NEVER_USED


def lag_of(committed: Mapping[Any, Any], starts: Mapping[Any, int], ends: Mapping[Any, int]) -> int:
    """Return how many records a group has not read yet, in the partitions that it has read from."""
    return sum(
        max(0, ends[place] - max(entry.offset, starts.get(place, 0)))
        for place, entry in committed.items()
        if place in ends
    )


class Progress:
    """How a group gets on, from look to look. A group without new records has nothing to do, however long."""

    def __init__(self) -> None:
        self._before: GroupLook | None = None
        self._looked_s = 0.0
        self._end_when_moved = 0
        self._moved_at: datetime | None = None
        self._waiting_since_s: float | None = None
        self._rate = 0.0

    def after(self, look: GroupLook, at: datetime, clock_s: float) -> Group:
        """Return what a look and the ones before it say.

        Args:
            look: The newest one.
            at: When it was.
            clock_s: The same as monotonic seconds.
        """
        before, self._before = self._before, look
        took_s, self._looked_s = clock_s - self._looked_s, clock_s
        end = look.done + look.lag
        if before is None or look.done != before.done or not look.lag:
            if before is not None and look.done > before.done:
                self._moved_at = at
                self._rate = (look.done - before.done) / max(took_s, 1e-3)
            self._end_when_moved, self._waiting_since_s = end, None
        elif end > self._end_when_moved and self._waiting_since_s is None:
            self._waiting_since_s = clock_s  # records have come since it last got on
        return Group(
            members=look.members,
            lag=look.lag,
            moved_at=self._moved_at,
            stands_s=0.0 if self._waiting_since_s is None else clock_s - self._waiting_since_s,
            behind_s=look.lag / self._rate if self._rate else None,
        )
