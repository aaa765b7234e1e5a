"""Workers that place tools in the same partitions, and no others, are in one group at a time.

A worker of an older version, or with another ``family_pattern``, owns other partitions of the same tools. Kafka keeps them apart: a group has
one protocol, and its name says how tools are placed. A worker waits here until the others are gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, cast
from zlib import crc32

import faust
import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import (
    ClientAssignmentMapping,
    CopartitionedGroups,
    MemberAssignmentMapping,
    MemberSubscriptionMapping,
    PartitionAssignor,
)
from faust.types import AppT

from switchgear_schemas.families import canonical_pattern
from switchgear_schemas.settings import Settings

log = structlog.get_logger()
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 2.0
SAY_EVERY_S: Final = 30.0


def protocol_name(family_pattern: str) -> str:
    """Return the name of the group's protocol."""
    return f"switchgear-families-{crc32(canonical_pattern(family_pattern).encode()):08x}"


class PlacedApp(faust.App):
    """Faust's application with the pattern by which tools are placed."""

    family_pattern = ""


class Assignor(PartitionAssignor):
    """Faust's assignor under the name of the placement. Partitions that were added to a topic don't move circuits.

    Faust would assign a topic with more partitions than the table by itself, and so give a tool's events to a worker that doesn't have
    its row. Here the owner of partition ``p`` gets the added partitions ``p + n``, ``p + 2n`` and so on of ``n``, too.
    """

    def __init__(self, app: AppT, replicas: int = 0) -> None:
        super().__init__(app, replicas)
        self._kept: int = app.conf.topic_partitions
        self._added: dict[str, range] = {}

    @property
    def name(self) -> str:
        """The name of the group's protocol."""
        return protocol_name(cast("PlacedApp", self.app).family_pattern)

    def _get_copartitioned_groups(  # type: ignore[override]  # a class method of Faust's, which it calls on the instance
        self, topics: set[str], cluster: ClusterMetadata, subscriptions: MemberSubscriptionMapping
    ) -> CopartitionedGroups:
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        whole = {topic for topic, count in counts.items() if count >= self._kept}
        self._added = {
            topic: range(self._kept, counts[topic]) for topic in whole - self._table_manager.changelog_topics
        }
        groups = dict(super()._get_copartitioned_groups(topics - whole, cluster, subscriptions))
        return groups | {self._kept: list(self._group_co_subscribed(whole, subscriptions))}

    def _get_client_metadata(self, metadata: ConsumerProtocolMemberMetadata) -> ClientMetadata:  # type: ignore[override]  # as above
        found = super()._get_client_metadata(metadata)
        actives = found.assignment.actives
        found.assignment.actives = {
            topic: [each for each in numbers if each < self._kept] for topic, numbers in actives.items()
        }
        return found

    def _protocol_assignments(self, assignments: ClientAssignmentMapping, *others: Any) -> MemberAssignmentMapping:
        for assignment in assignments.values():
            for topic, added in self._added.items():
                owned = assignment.actives.get(topic, [])
                assignment.actives[topic] = [*owned, *(each for each in added if each % self._kept in owned)]
        return super()._protocol_assignments(assignments, *others)


async def wait_for_group(settings: Settings, waits: Callable[[str | None], None]) -> None:
    """Return when no worker that places tools otherwise is in the group.

    Args:
        settings: The brokers, the group and the pattern.
        waits: Called with what it waits for, and with None when the wait is over.
    """
    pause, said_at = FIRST_PAUSE_S, -SAY_EVERY_S
    own = protocol_name(settings.family_pattern)
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    try:
        await admin.start()
        while (found := await _protocol(admin, settings.topics.worker_group)) not in {None, own}:
            reason = (
                f"Workers of another version, or with another family_pattern, still run in the group {settings.topics.worker_group}; "
                "this worker begins when they have ended."
            )
            if found and time.monotonic() - said_at >= SAY_EVERY_S:
                log.warning("waiting", reason=reason, protocol=found)
                said_at = time.monotonic()
            waits(reason if found else None)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S) if found else FIRST_PAUSE_S
    finally:
        await admin.close()
    waits(None)


async def _protocol(admin: AIOKafkaAdminClient, group: str) -> str | None:
    """Return the group's protocol; None without members, and an empty text while they join or the broker does not answer."""
    try:
        (response,) = await admin.describe_consumer_groups([group])
    except KafkaError as error:
        log.warning("group_unknown", error=repr(error))
        return ""
    code, _, state, _, protocol, members = response.groups[0][:6]
    if code:
        return ""
    return None if not members or state in {"Empty", "Dead"} else str(protocol)
