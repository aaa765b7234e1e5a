"""Create the topics, and compare existing ones with the settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.offset import OffsetRequest, OffsetResetStrategy

from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_schemas.topics import TopicDefinition

TopicStatus = Literal["created", "ok", "differs", "missing"]


class HiddenTopicError(SwitchgearError):
    """The cluster doesn't show this user how a topic is configured."""


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the cluster has it. ``config`` holds the values in force, defaults included."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One property that differs: ``partitions``, ``replication_factor`` or a configuration key."""

    name: str
    wanted: str
    found: str


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The report on one topic."""

    name: str
    status: TopicStatus
    differences: tuple[Difference, ...] = ()


def differences(wanted: TopicDefinition, found: FoundTopic) -> tuple[Difference, ...]:
    """Return every property of ``found`` that differs from ``wanted``, partitions and replication first."""
    pairs: list[tuple[str, str, str | None]] = [
        ("partitions", str(wanted.partitions), str(found.partitions)),
        ("replication_factor", str(wanted.replication_factor), str(found.replication_factor)),
        *((key, value, found.config.get(key)) for key, value in wanted.config.items()),
    ]
    return tuple(
        Difference(name, want, "(not set)" if have is None else have)
        for name, want, have in pairs
        if have is None or _normal(want) != _normal(have)
    )


def _normal(value: str) -> object:
    """Normalise a value: ``compact,delete`` equals ``delete,compact``, and ``0.10`` equals ``0.1``."""
    try:
        return float(value)
    except ValueError:
        return sorted(part.strip() for part in value.split(","))


_RETRY_S: Final = 0.5
_LEADER_POLL_S: Final = 0.02
_NOT_YET: Final = {
    error.errno for error in (LeaderNotAvailableError, NotLeaderForPartitionError, UnknownTopicOrPartitionError)
}


async def ensure_topics(
    settings: Settings, *, wanted: tuple[TopicDefinition, ...] | None = None, timeout_s: float = 20.0
) -> list[TopicReport]:
    """Create the topics that are missing. Compare existing ones and leave them unchanged.

    Args:
        settings: The brokers and the definitions.
        wanted: The topics; ``settings.topic_definitions()`` if None.
        timeout_s: Longest time for everything, in seconds.

    Returns:
        One report per topic, in the order of ``wanted``. A created topic has a leader for each of
        its partitions: producers may start.

    Raises:
        BrokerUnavailableError: No broker answered within ``timeout_s`` seconds.
        SwitchgearError: The cluster refused to create a topic; it says which and why.
    """
    async with connected(settings, timeout_s) as admin:
        return await _ensure(admin, settings.topic_definitions() if wanted is None else wanted, timeout_s)


@asynccontextmanager
async def connected(settings: Settings, timeout_s: float) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect an admin client as soon as a broker answers. The block must end within ``timeout_s`` seconds, too.

    Raises:
        BrokerUnavailableError: It didn't, or Kafka answered with an error.
    """
    try:
        async with asyncio.timeout(timeout_s):
            admin = await _connected(settings)
            try:
                yield admin
            finally:
                await admin.close()
    except (TimeoutError, KafkaError) as error:
        said = f" ({type(error).__name__})" if isinstance(error, KafkaError) else ""
        raise BrokerUnavailableError(
            f"No Kafka broker answered at {settings.kafka_bootstrap_servers} within {timeout_s:g} s{said}.",
            hint="Start one (`switchgear up`), or set SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS.",
        ) from error


async def _connected(settings: Settings) -> AIOKafkaAdminClient:
    """Return an admin client as soon as a broker answers. The caller limits the wait."""
    while True:
        admin = AIOKafkaAdminClient(**settings.kafka.options(), request_timeout_ms=10_000)
        try:
            await admin.start()
        except KafkaError:
            await admin.close()
            await asyncio.sleep(_RETRY_S)
        except BaseException:
            await admin.close()
            raise
        else:
            return admin


async def _ensure(
    admin: AIOKafkaAdminClient, wanted: tuple[TopicDefinition, ...], timeout_s: float
) -> list[TopicReport]:
    existing = {topic["topic"] for topic in await admin.describe_topics()}
    missing = [topic for topic in wanted if topic.name not in existing]
    created = await _create(admin, missing, timeout_s)
    await _wait_for_leaders(admin, {topic.name for topic in missing})
    return [
        TopicReport(topic.name, "created") if topic.name in created else report
        for topic, report in zip(wanted, await compare_topics(admin, wanted), strict=True)
    ]


async def compare_topics(admin: AIOKafkaAdminClient, wanted: Iterable[TopicDefinition]) -> list[TopicReport]:
    """Compare each topic with its definition, and change nothing.

    Raises:
        HiddenTopicError: The cluster doesn't show this user the configuration of a topic.
    """
    wanted = tuple(wanted)
    found = await _found(admin, {topic.name for topic in wanted})
    return [_report(topic, found.get(topic.name)) for topic in wanted]


def _report(wanted: TopicDefinition, found: FoundTopic | None) -> TopicReport:
    if found is None:
        return TopicReport(wanted.name, "missing")
    differing = differences(wanted, found)
    return TopicReport(wanted.name, "differs" if differing else "ok", differing)


async def _create(admin: AIOKafkaAdminClient, missing: list[TopicDefinition], timeout_s: float) -> set[str]:
    if not missing:
        return set()
    answer = await admin.create_topics(
        [
            NewTopic(topic.name, topic.partitions, topic.replication_factor, topic_configs=topic.config)
            for topic in missing
        ],
        timeout_ms=int(timeout_s * 1000),
    )
    created = set()
    for name, code, *rest in answer.topic_errors:
        error = for_code(code)
        if code == 0:
            created.add(name)
        elif error is not TopicAlreadyExistsError:  # another process created it first: compare it like any other
            raise SwitchgearError(
                f"Kafka refused to create the topic {name}: {(rest[0] if rest else '') or error.__name__}",
                hint="Correct the setting, or have the cluster's operator create the topic.",
            )
    return created


async def _found(admin: AIOKafkaAdminClient, names: Collection[str]) -> dict[str, FoundTopic]:
    described = [topic for topic in await admin.describe_topics() if topic["topic"] in names]
    configs = await _configs(admin, {topic["topic"] for topic in described})
    return {
        topic["topic"]: FoundTopic(
            name=topic["topic"],
            partitions=len(topic["partitions"]),
            replication_factor=min((len(part["replicas"]) for part in topic["partitions"]), default=0),
            config=configs[topic["topic"]],
        )
        for topic in described
    }


async def _configs(admin: AIOKafkaAdminClient, names: set[str]) -> dict[str, dict[str, str | None]]:
    """Return the values in force by topic.

    The broker may not know a new topic yet, so this asks again; the caller limits the wait.
    """
    configs: dict[str, dict[str, str | None]] = {}
    while asked := sorted(names - configs.keys()):
        answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in asked])
        for code, message, _kind, name, entries, *_rest in (row for answer in answers for row in answer.resources):
            error = for_code(code)
            if code == 0:
                configs[name] = {entry[0]: entry[1] for entry in entries}
            elif error is not UnknownTopicOrPartitionError:
                raise HiddenTopicError(
                    f"Kafka did not return the configuration of the topic {name}: {message or error.__name__}",
                    hint="Allow this user DescribeConfigs on it.",
                )
        if names - configs.keys():
            await asyncio.sleep(_LEADER_POLL_S)
    return configs


async def _wait_for_leaders(admin: AIOKafkaAdminClient, names: set[str]) -> None:
    """Wait until the leader of each partition takes requests, so that producers can start. The caller limits the wait.

    A broker names itself the leader of a new partition a moment before it acts as such: until then it answers
    NOT_LEADER_OR_FOLLOWER, and a client logs that as an error.
    """
    while names:
        topics = [topic for topic in await admin.describe_topics() if topic["topic"] in names]
        led = _by_leader(topics) if len(topics) == len(names) else None
        if led is not None:
            answers = [await _error_codes(admin, leader, parts) for leader, parts in led.items()]
            if not any(_NOT_YET & codes for codes in answers):
                return
        await asyncio.sleep(_LEADER_POLL_S)


def _by_leader(topics: list[dict[str, Any]]) -> dict[int, dict[str, list[int]]] | None:
    """Return the partitions by broker and topic; None if a partition has no leader yet."""
    led: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for part in topic["partitions"]:
            if topic["error_code"] or part["error_code"] or part["leader"] < 0:
                return None
            led.setdefault(part["leader"], {}).setdefault(topic["topic"], []).append(part["partition"])
    return led


async def _error_codes(admin: AIOKafkaAdminClient, leader: int, topics: dict[str, list[int]]) -> set[int]:
    """Ask a broker for the last offset of each partition. Return the error codes of its answer."""
    asked = [(name, [(part, OffsetResetStrategy.LATEST) for part in parts]) for name, parts in topics.items()]
    request = OffsetRequest(-1, 0, asked)
    answer = await admin._send_request_to_node(leader, request)  # noqa: SLF001 - it has no method of its own for this
    return {code for _name, parts in answer.topics for _part, code, *_offset in parts}
