"""How the group's partitions are shared among the workers."""

from __future__ import annotations

from typing import Any, cast

import faust
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import (
    ClientAssignmentMapping,
    CopartitionedGroups,
    MemberAssignmentMapping,
    MemberSubscriptionMapping,
    PartitionAssignor,
)
from faust.types import AppT

from switchgear_stream.placement import protocol_name


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
