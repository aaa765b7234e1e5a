"""The names, partitions and configuration of the Kafka topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from switchgear_schemas.enums import MAX_EVENT_BYTES, MAX_LETTER_BYTES

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class TopicDefinition:
    """One topic as it should be."""

    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]


@dataclass(frozen=True)
class TopicNames:
    """The names of topics and groups under one prefix. Several installations can share a Kafka cluster."""

    prefix: str = "switchgear."

    @property
    def executions(self) -> str:
        """One event per call. The key is the tool's family, or its name without one."""
        return f"{self.prefix}executions"

    @property
    def circuits(self) -> str:
        """The state of every circuit, compacted. The key is the circuit id."""
        return f"{self.prefix}circuits"

    @property
    def commands(self) -> str:
        """Commands of operators. The key is the tool's family, or its name without one."""
        return f"{self.prefix}commands"

    @property
    def dead(self) -> str:
        """Dead letters: refused messages with their reason. The key is the origin."""
        return f"{self.executions}.dead"

    @property
    def worker_group(self) -> str:
        """The consumer group of the stream workers, which is also their Faust application id."""
        return f"{self.prefix}worker"

    @property
    def sink_group(self) -> str:
        """The consumer group of the sinks."""
        return f"{self.prefix}sink"

    @property
    def alerts(self) -> str:
        """Open incidents and messages not yet delivered, of ``switchgear alerts``; compacted, one partition."""
        return f"{self.prefix}alerts"

    @property
    def alerts_group(self) -> str:
        """The consumer group of ``switchgear alerts``, which is also its transactional id."""
        return f"{self.prefix}alerts"

    @property
    def changelog(self) -> str:
        """The changelog of the workers' table. Faust names it ``{application id}-{table}-changelog``."""
        return f"{self.worker_group}-circuits-changelog"


def topic_definitions(
    names: TopicNames,
    *,
    partitions: int = 12,
    replication_factor: int = 1,
    executions_retention_hours: int = 168,
    dead_retention_hours: int = 720,
    circuits_history_hours: int = 168,
) -> tuple[TopicDefinition, ...]:
    """Return every topic that Switchgear needs, in the order in which to create them."""

    def topic(name: str, **config: object) -> TopicDefinition:
        written = {key.replace("_", "."): str(value) for key, value in config.items()}
        if replication_factor >= 3:
            written["min.insync.replicas"] = "2"
        return TopicDefinition(name=name, partitions=partitions, replication_factor=replication_factor, config=written)

    history_ms = circuits_history_hours * _HOUR_MS
    return (
        # LogAppendTime is the worker's clock. The limit is above MAX_EVENT_BYTES, so that an oversized event
        # reaches the dead letters, where you can find it, instead of failing only in its producer.
        topic(
            names.executions,
            cleanup_policy="delete",
            retention_ms=executions_retention_hours * _HOUR_MS,
            message_timestamp_type="LogAppendTime",
            max_message_bytes=4 * MAX_EVENT_BYTES,
        ),
        topic(
            names.circuits,
            cleanup_policy="compact",
            min_compaction_lag_ms=history_ms,
            message_timestamp_type="LogAppendTime",
        ),
        topic(
            names.commands,
            cleanup_policy="delete",
            retention_ms=executions_retention_hours * _HOUR_MS,
            message_timestamp_type="LogAppendTime",
        ),
        topic(
            names.dead,
            cleanup_policy="compact,delete",
            retention_ms=dead_retention_hours * _HOUR_MS,
            max_message_bytes=MAX_LETTER_BYTES,
        ),
        # A take-over reads the whole changelog. Small segments and an eager cleaner keep it near the size of the live state.
        topic(
            names.changelog,
            cleanup_policy="compact",
            segment_ms=600_000,
            min_cleanable_dirty_ratio=0.1,
            max_message_bytes=4 * MAX_EVENT_BYTES,
        ),
    )


def alerts_topic(names: TopicNames, *, replication_factor: int = 1) -> TopicDefinition:
    """Return the topic that ``switchgear alerts`` creates for itself. Systems without alerts don't have it."""
    config = {"cleanup.policy": "compact", "segment.ms": "600000", "max.message.bytes": str(4 * MAX_EVENT_BYTES)}
    if replication_factor >= 3:
        config["min.insync.replicas"] = "2"
    return TopicDefinition(names.alerts, partitions=1, replication_factor=replication_factor, config=config)
