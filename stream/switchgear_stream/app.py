"""The Faust application: the settings that were measured to be right, our transport, and the table."""

from __future__ import annotations

from typing import cast

import faust
from faust.tables.manager import TableManager
from faust.types import TopicT
from faust.types.auth import CredentialsT

from switchgear_schemas.connection import METADATA_MAX_AGE_MS
from switchgear_schemas.settings import Settings
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.intake import Transport
from switchgear_stream.recovery import Recovery

CHATTY_LOGGERS = ("faust", "mode", __name__, "switchgear_stream.intake", "switchgear_stream.durable_table")
"""They draw tables of every assignment at info; mode names the loggers of subclasses after their modules."""
TABLE = "circuits"
"""Faust names the changelog ``{application id}-{table}-changelog``: ``settings.topics.changelog``."""


class WorkerApp(faust.App):
    """Faust's application without its folders: the table is in memory."""

    async def on_first_start(self) -> None:
        """Skip making Faust's data folders in the current directory."""


def build_app(settings: Settings, *, instance_id: str | None = None) -> tuple[WorkerApp, DurableTable, TopicT]:
    """Make the application, its table and the topic pair it reads; nothing connects before ``app.start()``.

    Args:
        settings: brokers, names and limits.
        instance_id: makes this a static member of its group: restarted under the same id within the session timeout it gets its
            circuits back at once, without a rebalance.

    Why these settings: memory store, because recovery reads small rows quickly and RocksDB adds only risk; at_least_once, because the fence
    makes it exact where exactly_once duplicated outputs; topics are made by ``switchgear topics ensure`` with their right configuration.
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
    names = settings.topics
    app.transport = Transport(app, frozenset({names.executions, names.commands}))
    topic = app.topic(names.executions, names.commands, key_type=bytes, value_type=None)
    table = DurableTable(app, name=TABLE, key_type=bytes, value_type=bytes, partitions=settings.topic_partitions)
    tables = cast("TableManager", app.tables)
    tables.add(table)
    tables._recovery = Recovery(app, tables, beacon=tables.beacon, loop=tables.loop)  # noqa: SLF001 - as it would make its own
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
