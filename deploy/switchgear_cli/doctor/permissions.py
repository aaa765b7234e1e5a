"""What a Kafka user may do with the topics and groups, as the broker says, and what each kind of process needs.

aiokafka asks for neither, so the two requests are here. Brokers answer them since Kafka 2.3. Nothing is written or read to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Literal

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupAuthorizationFailedError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest_v3, DescribeGroupsResponse_v3
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from switchgear_schemas.topics import TopicNames

Role = Literal["operator", "service", "worker", "sink", "alerts"]
_MISSING_TOPIC: Final = 3
_DENIED: Final = 29
_UNKNOWN: Final = -(2**31)
"""The bits of a broker that doesn't say."""


class Operation(IntEnum):
    """An operation of Kafka's permissions, by its number in the protocol."""

    Read = 3
    Write = 4
    Create = 5
    Describe = 8
    DescribeConfigs = 10


class _TopicsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _TopicsStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _TopicsResponse
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _TopicsRequest(Request[_TopicsStruct]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: type[_TopicsStruct]) -> Any:
        return request_struct_class(self._topics, False, False, True)


class _GroupStruct(DescribeGroupsRequest_v3):  # type: ignore[misc]
    RESPONSE_TYPE = DescribeGroupsResponse_v3  # aiokafka names the response of version 2, which has no operations


class _GroupRequest(Request[_GroupStruct]):  # type: ignore[misc]
    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_GroupStruct]) -> Any:
        return request_struct_class([self._group], True)


@dataclass(frozen=True, slots=True)
class Needs:
    """The operations that a process needs, by topic and by group."""

    topics: Mapping[str, frozenset[Operation]]
    groups: Mapping[str, frozenset[Operation]] = field(default_factory=dict)


def needs_of(role: Role, names: TopicNames) -> Needs:
    """Return what a process needs. docs/howto/kafka-permissions.md has the same as commands."""
    every = (names.executions, names.circuits, names.commands, names.dead, names.changelog)
    read, write = frozenset({Operation.Read}), frozenset({Operation.Write})
    if role == "service":
        return Needs({names.executions: write, names.circuits: read})
    if role == "worker":
        return Needs(dict.fromkeys(every, read | write), {names.worker_group: read})
    if role == "sink":
        return Needs({names.executions: read, names.circuits: read, names.dead: write}, {names.sink_group: read})
    if role == "alerts":
        own = read | write | {Operation.Create, Operation.DescribeConfigs}
        return Needs({names.circuits: read, names.alerts: own}, {names.alerts_group: read})
    return Needs(
        dict.fromkeys(every, read | write | {Operation.DescribeConfigs}),
        {names.worker_group: frozenset({Operation.Describe})},
    )


def allowed(bits: int) -> frozenset[Operation]:
    """Return the operations in the broker's bits; all if it doesn't say."""
    return frozenset(each for each in Operation if bits == _UNKNOWN or bits >> each & 1)


async def denied_topics(admin: AIOKafkaAdminClient, needs: Needs) -> dict[str, frozenset[Operation]]:
    """Return the needed operations that this user may not do, by topic. Topics that don't exist are left out.

    Raises:
        IncompatibleBrokerVersion, NotImplementedError: The broker is older than Kafka 2.3.
    """
    answer = await admin._send_request(_TopicsRequest(needs.topics))  # noqa: SLF001 - the client's own way to send a request
    found = {}
    for topic in answer.to_object()["topics"]:
        if topic["error_code"] != _MISSING_TOPIC:
            may = frozenset() if topic["error_code"] == _DENIED else allowed(topic["authorized_operations"])
            found[topic["topic"]] = needs.topics[topic["topic"]] - may
    return {name: missing for name, missing in found.items() if missing}


async def denied_groups(admin: AIOKafkaAdminClient, needs: Needs) -> dict[str, frozenset[Operation]]:
    """Return the needed operations that this user may not do, by group.

    Raises:
        IncompatibleBrokerVersion, NotImplementedError: The broker is older than Kafka 2.3.
        KafkaError: The group's coordinator can't answer yet.
    """
    found = {}
    for group, needed in needs.groups.items():
        try:
            coordinator = await admin.find_coordinator(group)
            answer = await admin._send_request(_GroupRequest(group), coordinator)  # noqa: SLF001 - as above
            (described,) = answer.to_object()["groups"]
            if described["error_code"]:
                raise for_code(described["error_code"])
            may = allowed(described["authorized_operations"])
        except GroupAuthorizationFailedError:
            may = frozenset()
        found[group] = needed - may
    return {name: missing for name, missing in found.items() if missing}
