"""``switchgear gateway``: Switchgear over HTTP and OpenTelemetry."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.logs import configure_logging
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import load_settings


async def gateway(
    *,
    bootstrap_servers: Annotated[str | None, Parameter(help="Kafka brokers, host:port, comma-separated.")] = None,
    topic_prefix: Annotated[str | None, Parameter(help="Before every topic name.")] = None,
    http: Annotated[str | None, Parameter(help="host:port to listen on.")] = None,
    otlp_grpc: Annotated[
        str | None, Parameter(help="host:port of OTLP over gRPC, usually port 4317; none unless given.")
    ] = None,
    log_level: Annotated[str | None, Parameter(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, Parameter(help="console or json.")] = None,
) -> None:
    """Serve clients that don't use Kafka, until SIGTERM or Ctrl-C: other languages, serverless functions, OpenTelemetry.

    It needs Kafka and the topics (`switchgear topics ensure`), and keeps nothing on disk. Start as many as you like. Clients of other
    machines need tokens (`switchgear token`). Everything else is in the settings (SWITCHGEAR_*).
    """
    try:
        from switchgear_gateway.service import run_gateway  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SwitchgearError(
            f"The gateway needs the package {error.name}.", hint="Install switchgear[gateway]."
        ) from error
    settings = load_settings(
        kafka_bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        gateway_http=http,
        gateway_otlp_grpc=otlp_grpc,
        log_level=log_level,
        log_format=log_format,
    )
    configure_logging(settings, without_kafka="Requests with executions get 503, and circuits stay as they are.")
    await run_gateway(settings)
