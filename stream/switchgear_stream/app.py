"""The Faust application: its settings, with our transport, our table and our recovery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from typing import Final, cast

import faust
from faust.tables import recovery as faust_recovery
from faust.tables.manager import TableManager
from faust.types import TP, TopicT
from faust.types.auth import CredentialsT
from faust.types.transports import ConsumerT

from switchgear_schemas.connection import METADATA_MAX_AGE_MS
from switchgear_schemas.settings import Settings
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.group import Assignor, PlacedApp
from switchgear_stream.intake import Consumer, Transport

TABLE: Final = "circuits"
"""Faust names the changelog ``{application id}-{table}-changelog``, which is ``settings.topics.changelog``."""


class WorkerApp(PlacedApp):
    """Faust's application without its data folders: the table is in memory."""

    async def on_first_start(self) -> None:
        """Skip making Faust's data folders in the current directory."""


class Recovery(faust_recovery.Recovery):
    """Faust's recovery without its reading. :mod:`.takeover` reads the rows.

    Faust's own recovery skips rows that it takes as read. It uses the consumer's mark of each partition, which a poll in flight sets
    back after a seek, and the table's offset. A rebalance during a recovery broke both. The recovery then waited indefinitely for rows
    that it had skipped itself, or ended without them.

    When to recover stays Faust's decision, and it awaits the table's ``on_recovery_completed`` before the first event.
    """

    def need_recovery(self) -> bool:
        """Return False: Faust has no rows to wait for."""
        return False

    async def _build_highwaters(
        self, consumer: ConsumerT, tps: AbstractSet[TP], destination: Counter[TP], title: str
    ) -> None:
        """Skip asking for the ends of the changelog: the take-over does."""

    async def _build_offsets(
        self, consumer: ConsumerT, tps: AbstractSet[TP], destination: Counter[TP], title: str
    ) -> None:
        """Skip asking for the beginnings of the changelog: the take-over does."""

    async def _seek_offsets(
        self,
        consumer: ConsumerT,
        tps: AbstractSet[TP],
        offsets: Counter[TP],  # noqa: ARG002 - Faust's signature
        title: str,  # noqa: ARG002 - Faust's signature
    ) -> None:
        """Stop fetching the changelog until the next assignment."""
        await cast("Consumer", consumer).rest(tps)


def build_app(settings: Settings, *, instance_id: str | None = None) -> tuple[WorkerApp, DurableTable, TopicT]:
    """Return the application, its table and the pair of topics that it reads. It connects at ``app.start()``.

    The store is in memory: recovery reads small rows quickly, and RocksDB adds only risk. The guarantee is ``at_least_once``: the offset
    fence makes it exact, and ``exactly_once`` duplicated outputs. ``switchgear topics ensure`` creates the topics.

    Args:
        settings: Brokers, names and limits.
        instance_id: Makes this worker a static member of its group. If it restarts with the same id within the session timeout, it keeps
            its circuits without a rebalance.
    """
    session_s = settings.worker_session_timeout_s
    app = WorkerApp(
        settings.topics.worker_group,
        broker=";".join(f"kafka://{broker.strip()}" for broker in settings.kafka_bootstrap_servers.split(",")),
        broker_credentials=_credentials(settings),
        broker_session_timeout=session_s,
        consumer_group_instance_id=instance_id,
        broker_heartbeat_interval=min(3.0, session_s / 6),
        broker_request_timeout=max(90.0, session_s + 30),
        broker_commit_interval=0.5,
        broker_max_poll_records=5000,
        consumer_max_fetch_size=4 * 1_048_576,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=METADATA_MAX_AGE_MS,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        processing_guarantee="at_least_once",
        PartitionAssignor=Assignor,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        stream_buffer_maxsize=64,  # batches, not messages
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=settings.topic_partitions,
        topic_replication_factor=settings.topic_replication_factor,
        producer_linger=0.0,
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    app.family_pattern = settings.family_pattern
    names = settings.topics
    app.transport = Transport(app, frozenset({names.executions, names.commands}))
    topic = app.topic(names.executions, names.commands, key_type=bytes, value_type=None)
    table = DurableTable(app, name=TABLE, key_type=bytes, value_type=bytes, partitions=settings.topic_partitions)
    table.family_pattern = settings.family_pattern
    tables = cast("TableManager", app.tables)
    tables.add(table)
    tables._recovery = Recovery(app, tables, beacon=tables.beacon, loop=tables.loop)  # noqa: SLF001 - Faust offers no other place for a Recovery
    return app, table, topic


def _credentials(settings: Settings) -> CredentialsT | None:
    options = settings.kafka.options()
    protocol = settings.kafka_security_protocol
    if protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=settings.kafka_sasl_username,
            password=options["sasl_plain_password"],
            mechanism=settings.kafka_sasl_mechanism,
            ssl_context=options.get("ssl_context"),
        )
    return faust.SSLCredentials(options["ssl_context"]) if protocol == "SSL" else None
