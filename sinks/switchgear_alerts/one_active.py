"""The assignor of the consumer group: one process has all partitions, the others wait to take over.

Only so can one message list what opens in the whole fleet. Alerts are few, so one process is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

_ACTIVE: Final = b"active"


def make_assignor() -> type[Any]:
    """Return an assignor for one consumer. It remembers whether its process is the active one."""

    class OneActive(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
        """Gives everything to the active member, or else to the first by name."""

        name = "switchgear-one-active"
        version = 0
        _user_data = b""

        @classmethod
        def assign(cls, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
            """Return the partitions of each member."""
            return assign(cluster, members)

        @classmethod
        def metadata(cls, topics: Iterable[str]) -> Any:
            """Return what this member says of itself when it joins."""
            return ConsumerProtocolMemberMetadata(cls.version, list(topics), cls._user_data)

        @classmethod
        def on_assignment(cls, assignment: Any) -> None:
            """Remember whether this member is active."""
            cls._user_data = _ACTIVE if any(partitions for _, partitions in assignment.assignment) else b""

    return OneActive


def assign(cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return all partitions for one member, and none for the others.

    Args:
        cluster: Knows the partitions of topics.
        members: What each member said of itself, by its id.
    """
    active = min(members, key=lambda each: (members[each].user_data != _ACTIVE, each))
    topics = sorted(members[active].subscription)
    everything = [(topic, sorted(cluster.partitions_for_topic(topic) or ())) for topic in topics]
    return {
        member: ConsumerProtocolMemberAssignment(0, everything if member == active else [], b"") for member in members
    }
