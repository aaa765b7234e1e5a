"""The checks of Kafka: brokers, topics, permissions, consumer groups, clocks and circuits. None of them writes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IncompatibleBrokerVersion,
    NotCoordinatorForGroupError,
    for_code,
)

from switchgear.follower.follower import CircuitFollower
from switchgear_cli.doctor.checks import Check, Finding, SkippedError, joined
from switchgear_cli.doctor.permissions import Role, denied_groups, denied_topics, needs_of
from switchgear_cli.topics import Difference, HiddenTopicError, TopicReport, compare_topics, connected
from switchgear_schemas.settings import Settings

T = TypeVar("T")
BROKERS: Final = "brokers"
SKEW_S: Final = 2.0
"""A smaller difference between clocks is not reported."""
FRESH_S: Final = 3.0
"""How long to wait for an event that shows the broker's clock."""
MOST_LAG: Final = 10_000
"""Records of lag that are not reported: a second or two of work."""
_ADMIN_SHARE: Final = 0.9
"""Share of a check's time for Kafka, so that its sentence is the finding, and not that the time was over."""
_RETRY_S: Final = 0.3
_FETCH: Final = 1
_RELEASES: Final = ((65, "3.0"), (60, "2.8"), (46, "2.4"))
"""Requests that came with a release of Kafka, newest first."""
_OLDEST: Final = "2.4"
_WRONG: Final = {"partitions", "cleanup.policy", "message.timestamp.type"}
"""With another value the worker doesn't start, or counts wrongly. Other differences may be wanted."""


@dataclass(frozen=True, slots=True)
class KafkaChecks:
    """The checks of one cluster.

    Attributes:
        settings: The brokers and names.
        role: The kind of process whose permissions the user needs.
        limit_s: The longest time of each check, in seconds.
    """

    settings: Settings
    role: Role
    limit_s: float

    def checks(self) -> list[Check]:
        """Return the checks, in the order in which to show them."""
        return [
            Check(BROKERS, self.brokers),
            Check("topics", self.topics, BROKERS),
            Check("replicas", self.replicas, BROKERS),
            Check("permissions", self.permissions, BROKERS),
            Check("broker's clock", self.clock, BROKERS),
            Check("workers", self.workers, BROKERS),
            Check("sinks", self.sinks, BROKERS),
            Check("alerts", self.alerts, BROKERS),
            Check("circuits", self.circuits, BROKERS),
        ]

    async def brokers(self) -> Finding:
        """Look whether brokers answer, and how old they are."""
        async with self._admin() as admin:
            cluster = await admin.describe_cluster()
            names = ", ".join(f"{each['host']}:{each['port']}" for each in cluster["brokers"])
            release = release_of(api_versions(admin))
        count = len(cluster["brokers"])
        seen = f"{count} {'broker' if count == 1 else 'brokers'} ({names}), Kafka {release}."
        if release.startswith("before"):
            return Finding("fail", seen, f"Upgrade Kafka to {_OLDEST} or later.")
        if release.startswith("2."):
            return Finding("warn", seen, "Before Kafka 2.8, users that write need IdempotentWrite on the cluster.")
        return Finding("ok", seen)

    async def topics(self) -> Finding:
        """Compare the topics that the role needs with the settings."""
        needed = needs_of(self.role, self.settings.topics).topics
        wanted = [topic for topic in self.settings.topic_definitions() if topic.name in needed]
        async with self._admin() as admin:
            try:
                reports = await compare_topics(admin, wanted)
            except HiddenTopicError as error:
                if self.role == "operator":
                    raise
                existing = {each["topic"] for each in await admin.describe_topics()}
                reports = [TopicReport(topic.name, "missing") for topic in wanted if topic.name not in existing]
                if not reports:
                    raise SkippedError(f"{error.message.rstrip('.')}. The role {self.role} doesn't need it.") from None
        agreed = _agree(reports, self.settings)
        found = [finding for each in reports for finding in topic_findings(each, self.settings, agreed=agreed)]
        return joined(found, f"{len(wanted)} topics are as the settings define them ({self.settings.topic_prefix}…).")

    async def replicas(self) -> Finding:
        """Look for partitions without a leader, and for replicas that are not in sync."""
        names = {topic.name for topic in self.settings.topic_definitions()}
        async with self._admin() as admin:
            topics = [each for each in await admin.describe_topics() if each["topic"] in names]
        parts = [(topic["topic"], part) for topic in topics for part in topic["partitions"]]
        if not parts:
            raise SkippedError("There are no topics.")
        leaderless = [f"{topic}-{part['partition']}" for topic, part in parts if part["leader"] < 0]
        behind = [f"{topic}-{part['partition']}" for topic, part in parts if len(part["isr"]) < len(part["replicas"])]
        if leaderless:
            return Finding("fail", f"Without a leader: {_some(leaderless)}.", "Start the brokers that are down.")
        if behind:
            return Finding("warn", f"Replicas are not in sync: {_some(behind)}.", "Look for brokers that are down.")
        return Finding("ok", f"{len(parts)} partitions have a leader, and all replicas are in sync.")

    async def permissions(self) -> Finding:
        """Compare what this user may do with what its role needs."""
        needs = needs_of(self.role, self.settings.topics)
        user = self.settings.kafka_sasl_username
        who = f"The user {user!r}" if user else "The user of this connection"
        async with self._admin() as admin:
            try:
                denied = await denied_topics(admin, needs)
                denied |= await _coordinated(lambda: denied_groups(admin, needs))
            except (IncompatibleBrokerVersion, NotImplementedError):
                return Finding("skip", "These brokers don't say what a user may do (before Kafka 2.3).")
        if not denied:
            return Finding("ok", f"{who} may do what the role {self.role} needs.")
        lines = [f"{' and '.join(sorted(each.name for each in missing))} on {name}" for name, missing in denied.items()]
        commands = "\n".join(
            f"kafka-acls.sh --bootstrap-server {self._servers} --add --allow-principal User:{user or 'NAME'} "
            f"{' '.join(f'--operation {each.name}' for each in sorted(missing))} "
            f"{'--group' if name in needs.groups else '--topic'} {name}"
            for name, missing in denied.items()
        )
        return Finding("fail", f"{who} may not: {'; '.join(lines)}. The role {self.role} needs it.", commands)

    async def clock(self) -> Finding:
        """Compare the broker's clock with the one here, by an event that arrives now."""
        async with self._admin() as admin:
            places = await _partitions(admin, self.settings.topics.executions)
        async with self._consumer() as consumer:
            consumer.assign(places)
            await consumer.seek_to_end(*places)
            for place in places:  # seek_to_end is lazy: the position is known after this
                await consumer.position(place)
            polled = await consumer.getmany(timeout_ms=int(min(FRESH_S, self.limit_s / 2) * 1000), max_records=1)
            now = time.time()
        record = next((record for records in polled.values() for record in records), None)
        if record is None:
            return Finding("skip", f"No event arrived within {FRESH_S:g} s that shows the broker's clock.")
        return clock_finding("The broker's clock", now - record.timestamp / 1000, self.settings.late_after_s)

    async def workers(self) -> Finding:
        """Look at the workers' group."""
        names = self.settings.topics
        topics = (names.executions, names.commands)
        return await self._group(names.worker_group, topics, "worker", "switchgear worker")

    async def sinks(self) -> Finding:
        """Look at the sinks' group."""
        names = self.settings.topics
        return await self._group(names.sink_group, (names.executions, names.circuits), "sink", "switchgear sink")

    async def alerts(self) -> Finding:
        """Look whether a process sends alerts, if one has ever done so."""
        names = self.settings.topics
        async with self._admin() as admin:
            if names.alerts not in {each["topic"] for each in await admin.describe_topics()}:
                raise SkippedError(f"Alerts are not used: Kafka has no topic {names.alerts}.")
            state, members = await _described(admin, names.alerts_group)
        return alerts_finding(state, members)

    async def circuits(self) -> Finding:
        """Follow the circuits as a service does."""
        async with self._admin() as admin:
            await _partitions(admin, self.settings.topics.circuits)
        logging.getLogger("switchgear.follower").setLevel(logging.CRITICAL)  # the finding says it
        limit_s = self.limit_s * _ADMIN_SHARE
        follower = CircuitFollower(self.settings.kafka, topic_prefix=self.settings.topic_prefix)
        began = time.monotonic()
        try:
            loaded = await follower.until_loaded(limit_s)
            status = follower.status()
        finally:
            follower.close(1.0)
        if not loaded:
            why = f" ({status.last_error})" if status.last_error else ""
            return Finding("fail", f"The circuits could not be read within {limit_s:.1f} s{why}.")
        seen = f"{status.circuits} circuits followed in {time.monotonic() - began:.1f} s"
        if status.malformed:
            return Finding("warn", f"{seen}; {status.malformed} records are not circuits.", "switchgear dead list")
        return Finding("ok", f"{seen}.")

    async def _group(self, group: str, topics: tuple[str, ...], kind: str, command: str) -> Finding:
        async with self._admin() as admin:
            places = await _partitions(admin, *topics)
            state, members = await _described(admin, group)
            committed = await _coordinated(lambda: admin.list_consumer_group_offsets(group))
        async with self._consumer() as consumer:
            ends = await consumer.end_offsets(places)
            begins = await consumer.beginning_offsets(places)
        lag = lag_of(ends, begins, {place: each.offset for place, each in committed.items()})
        return group_finding(kind, command, state, members, lag)

    @property
    def _servers(self) -> str:
        return self.settings.kafka_bootstrap_servers

    def _admin(self) -> Any:
        return connected(self.settings, self.limit_s * _ADMIN_SHARE)

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(**self.settings.kafka.options(), group_id=None, enable_auto_commit=False)
        try:
            await consumer.start()
            yield consumer
        finally:
            await consumer.stop()


async def _partitions(admin: AIOKafkaAdminClient, *topics: str) -> list[TopicPartition]:
    """Return the partitions that topics have.

    Raises:
        SkippedError: A topic doesn't exist.
    """
    found = {each["topic"]: each["partitions"] for each in await admin.describe_topics()}
    for topic in topics:
        if topic not in found:
            raise SkippedError(f"Kafka has no topic {topic}.")
    return [TopicPartition(topic, part["partition"]) for topic in topics for part in found[topic]]


async def _described(admin: AIOKafkaAdminClient, group: str) -> tuple[str, int]:
    """Return the state of a consumer group, as Kafka names it, and how many members it has.

    Raises:
        SkippedError: The user may not see the group.
    """

    async def describe() -> tuple[str, int]:
        (answer,) = await admin.describe_consumer_groups([group])
        code, _, state, _, _, members = answer.groups[0][:6]
        if code:
            raise for_code(code)
        return state, len(members)

    try:
        return await _coordinated(describe)
    except GroupAuthorizationFailedError:
        raise SkippedError(f"This user may not describe the group {group}.") from None


async def _coordinated(ask: Callable[[], Awaitable[T]]) -> T:
    """Return what a group's coordinator answers. A new cluster has none until its first group is asked for, and it needs a moment."""
    while True:
        try:
            return await ask()
        except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError):
            await asyncio.sleep(_RETRY_S)


def api_versions(admin: AIOKafkaAdminClient) -> Mapping[int, tuple[int, int]]:
    """Return the requests that the broker knows, by number, with their lowest and highest version."""
    connection = next(iter(admin._client._conns.values()))  # noqa: SLF001 - aiokafka negotiates them, and shows them nowhere
    versions: Mapping[int, tuple[int, int]] = connection._versions  # noqa: SLF001 - as above
    return versions


def release_of(versions: Mapping[int, tuple[int, int]]) -> str:
    """Return the release of Kafka by the requests that a broker knows, such as ``4.0 or later``."""
    if versions.get(_FETCH, (0, 0))[0] >= 4:  # Kafka 4.0 removed the older versions of this request
        return "4.0 or later"
    release = next((release for key, release in _RELEASES if key in versions), None)
    return f"before {_OLDEST}" if release is None else f"{release} or later"


def _agree(reports: Iterable[TopicReport], settings: Settings) -> bool:
    """Return whether the topics that exist have the same number of partitions. That of the dead letters may have any."""
    counts = {
        next((each.found for each in report.differences if each.name == "partitions"), "")
        for report in reports
        if report.name != settings.topics.dead and report.status != "missing"
    }
    return len(counts) == 1


def topic_findings(report: TopicReport, settings: Settings, *, agreed: bool = True) -> list[Finding]:
    """Return the findings about one topic: that it is missing, or one for each difference.

    Args:
        report: The topic.
        settings: What it is compared with.
        agreed: The topics have the same number of partitions. Then the setting is wrong, if they differ from it; else a topic is.
    """
    if report.status == "missing":
        return [Finding("fail", f"Kafka has no topic {report.name}.", "switchgear topics ensure")]
    return [
        _other_partitions(report.name, each, settings)
        if each.name == "partitions" and not agreed
        else _difference(report.name, each, settings)
        for each in report.differences
    ]


def _other_partitions(topic: str, each: Difference, settings: Settings) -> Finding:
    """Return the finding about a topic that has other partitions than the others."""
    seen = f"{topic} has {each.found} partitions, and circuits are kept in {each.wanted} (topic_partitions)."
    if topic == settings.topics.dead:
        return Finding("warn", seen)
    if int(each.found) > int(each.wanted):
        return Finding(
            "warn",
            f"{seen} The events of the others take a detour.",
            "Leave SWITCHGEAR_TOPIC_PARTITIONS as it is (docs/howto/recovery.md).",
        )
    todo = (
        f"kafka-topics.sh --bootstrap-server {settings.kafka_bootstrap_servers} --alter --topic {topic} "
        f"--partitions {each.wanted}"
    )
    return Finding("fail", seen, todo)


def _difference(topic: str, each: Difference, settings: Settings) -> Finding:
    wrong = each.name in _WRONG and (each.name != "partitions" or topic != settings.topics.dead)
    seen = f"{topic}: {each.name} is {each.found}, the settings want {each.wanted}."
    if each.name == "partitions":
        todo = f"export SWITCHGEAR_TOPIC_PARTITIONS={each.found}"
    elif each.name == "replication_factor":
        todo = f"export SWITCHGEAR_TOPIC_REPLICATION_FACTOR={each.found}"
    else:
        value = f"[{each.wanted}]" if "," in each.wanted else each.wanted
        todo = (
            f"kafka-configs.sh --bootstrap-server {settings.kafka_bootstrap_servers} --alter --entity-type topics "
            f"--entity-name {topic} --add-config {each.name}={value}"
        )
    return Finding("fail" if wrong else "warn", seen, todo)


def lag_of(
    ends: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
) -> int:
    """Return the records that a group has not processed. A partition without a committed offset counts from its beginning."""
    return sum(max(0, end - max(committed.get(place, 0), begins[place])) for place, end in ends.items())


def group_finding(kind: str, command: str, state: str, members: int, lag: int) -> Finding:
    """Return the finding about a consumer group.

    Args:
        kind: The kind of its members: worker or sink.
        command: The command that starts one.
        state: The state of the group, as Kafka names it.
        members: How many members it has.
        lag: Records that it has not processed.
    """
    behind = f"{lag:,} records are not processed yet."
    if not members:
        return Finding("fail", f"No {kind} is running. {behind}", command)
    running = f"{members} {kind}{'s' if members > 1 else ''} running"
    if state != "Stable":
        return Finding("warn", f"{running}, and the group is {state}. {behind}", "Try again in a few seconds.")
    if lag > MOST_LAG:
        return Finding("warn", f"{running}. {behind}", f"Look at the log of each {kind}, or start another: {command}")
    return Finding("ok", f"{running}. {behind}")


def alerts_finding(state: str, members: int) -> Finding:
    """Return the finding about the processes that send alerts.

    Args:
        state: The state of their group, as Kafka names it.
        members: How many there are. One sends, the others wait to take over.
    """
    if not members:
        return Finding("warn", "No process sends alerts, and one did before.", "switchgear alerts run")
    running = f"{members} process{'es' if members > 1 else ''} of switchgear alerts running"
    if state != "Stable":
        return Finding("warn", f"{running}, and the group is {state}.", "Try again in a few seconds.")
    return Finding("ok", f"{running}.")


def clock_finding(whose: str, ahead_s: float, most_s: float) -> Finding:
    """Return the finding about a clock.

    Args:
        whose: Whose clock is compared with the one here.
        ahead_s: How far the clock here is ahead of it, in seconds.
        most_s: From this difference on, events count as late.
    """
    if abs(ahead_s) < SKEW_S:
        return Finding("ok", f"{whose} and the one here differ by less than {SKEW_S:g} s.")
    seen = f"{whose} is {abs(ahead_s):.1f} s {'behind' if ahead_s > 0 else 'ahead of'} the one here."
    return Finding("fail" if abs(ahead_s) >= most_s else "warn", seen, "Synchronise both machines by NTP.")


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
