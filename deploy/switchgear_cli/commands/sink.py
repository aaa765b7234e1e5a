"""``switchgear sink``: store executions and circuit changes in ClickHouse."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.discovery import check_only_sink
from switchgear_cli.logs import configure_logging
from switchgear_schemas.settings import load_settings


async def sink(
    *,
    bootstrap_servers: Annotated[str | None, Parameter(help="Kafka brokers, host:port, comma-separated.")] = None,
    topic_prefix: Annotated[str | None, Parameter(help="Before every topic name.")] = None,
    clickhouse: Annotated[
        str | None, Parameter(help="http(s)://user:password@host:port/database, or chdb: / chdb:/folder.")
    ] = None,
    http: Annotated[str | None, Parameter(help="host:port of the HTTP API, or of /healthz, /readyz, /metrics.")] = None,
    api: Annotated[
        bool, Parameter(negative=(), help="Serve the HTTP API too; with the embedded engine it is always served.")
    ] = False,
    instance_id: Annotated[
        str | None,
        Parameter(help="Stable name of this sink: restarted under it, it has its partitions back without a wait."),
    ] = None,
    rewind: Annotated[
        bool, Parameter(negative=(), help="Read again what this store lacks, because it was lost or is another one.")
    ] = False,
    retention_days: Annotated[int | None, Parameter(help="How long rows of the raw tables are kept.")] = None,
    log_level: Annotated[str | None, Parameter(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, Parameter(help="console or json.")] = None,
) -> None:
    """Run a sink until SIGTERM or Ctrl-C: it stores every execution once, and sends every bad one to the dead letters.

    It needs Kafka, the topics (`switchgear topics ensure`) and ClickHouse. It creates and migrates the tables. Start as
    many as you like on a ClickHouse server: they share the partitions. Everything else is in the settings (SWITCHGEAR_*).
    """
    from switchgear_api.service import run_sink  # noqa: PLC0415 - ClickHouse's client takes half a second to import

    settings = load_settings(
        kafka_bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        clickhouse_url=clickhouse,
        api_http=http,
        retention_days=retention_days,
        log_level=log_level,
        log_format=log_format,
    )
    check_only_sink(settings)
    configure_logging(settings, without_kafka="Calls wait in Kafka, and the sink stores them when it answers.")
    await run_sink(settings, api=api, instance_id=instance_id, rewind=rewind)
