"""The Kafka topics: names, partitions and configuration, from the settings alone."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from switchgear_schemas.dead_letter import MAX_LETTER_BYTES
from switchgear_schemas.enums import MAX_EVENT_BYTES

_HOUR_MS: Final = 3_600_000


class TopicDefinition(BaseModel):
    """One topic as it should be."""

    model_config = ConfigDict(frozen=True)

    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]


class TopicNames(BaseModel):
    """The names under one prefix; several Switchgears can share a Kafka cluster."""

    model_config = ConfigDict(frozen=True)

    prefix: str = "switchgear."

    @property
    def executions(self) -> str:
        """One event a call; key = tool name."""
        return f"{self.prefix}executions"

    @property
    def circuits(self) -> str:
        """State of every circuit, compacted; key = circuit id."""
        return f"{self.prefix}circuits"

    @property
    def commands(self) -> str:
        """What operators tell circuits; key = tool name."""
        return f"{self.prefix}commands"

    @property
    def dead(self) -> str:
        """Rejected executions with their reason; key = origin."""
        return f"{self.executions}.dead"

    @property
    def worker_group(self) -> str:
        """Consumer group (and Faust application id) of the stream workers."""
        return f"{self.prefix}worker"

    @property
    def sink_group(self) -> str:
        """Consumer group of the sinks."""
        return f"{self.prefix}sink"

    @property
    def changelog(self) -> str:
        """Changelog of the workers' table; the name is Faust's: ``{application id}-{table}-changelog``."""
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
    """Every topic that Switchgear needs, in the order in which to create them."""

    def topic(name: str, **config: object) -> TopicDefinition:
        written = {key.replace("_", "."): str(value) for key, value in config.items()}
        if replication_factor >= 3:
            written["min.insync.replicas"] = "2"
        return TopicDefinition(name=name, partitions=partitions, replication_factor=replication_factor, config=written)

    history_ms = circuits_history_hours * _HOUR_MS
    return (
        # LogAppendTime is the worker's clock. The limit is above MAX_EVENT_BYTES, so that an oversized event
        # reaches the dead letters, where a person finds it, instead of failing in its producer alone.
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
        # Recovery reads the whole changelog: small segments and an eager cleaner keep it near the live state's size.
        topic(
            names.changelog,
            cleanup_policy="compact",
            segment_ms=600_000,
            min_cleanable_dirty_ratio=0.1,
            max_message_bytes=4 * MAX_EVENT_BYTES,
        ),
    )
