"""``switchgear api``: the HTTP API over a ClickHouse server."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.logs import configure_logging
from switchgear_schemas.settings import load_settings


async def api(
    *,
    clickhouse: Annotated[str | None, Parameter(help="http(s)://user:password@host:port/database.")] = None,
    http: Annotated[str | None, Parameter(help="host:port to listen on.")] = None,
    grpc: Annotated[
        str | None, Parameter(help="host:port of tool health by gRPC, with grpc.health.v1; none unless given.")
    ] = None,
    log_level: Annotated[str | None, Parameter(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, Parameter(help="console or json.")] = None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C. It needs ClickHouse only, and changes nothing but the retention.

    With the embedded engine (chdb:) the sink serves the API itself: one process owns the data.
    """
    from switchgear_api.service import run_api  # noqa: PLC0415 - ClickHouse's client takes half a second to import

    settings = load_settings(clickhouse_url=clickhouse, api_http=http, log_level=log_level, log_format=log_format)
    configure_logging(
        settings, without_kafka="Stored rows can be read, circuits are shown as they were, and commands are refused."
    )
    await run_api(settings, grpc_address=grpc)
