"""``switchgear demo``: traffic of a small agent fleet."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.demo.fleet import SERVICES, run_fleet
from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging


async def demo(
    *,
    bootstrap_servers: Annotated[str | None, Parameter(help="Kafka brokers, host:port, comma-separated.")] = None,
    topic_prefix: Annotated[str | None, Parameter(help="Before every topic name.")] = None,
    seconds: Annotated[float | None, Parameter(help="Stop after so many seconds. By default Ctrl-C stops it.")] = None,
) -> None:
    """Call a dozen invented tools from three processes: one breaks for stretches, one slows down, one flaps.

    The traffic is labelled: the services are named demo-… and each event's metadata is {"demo": true}. Do not send it to
    a broker that real agents use.
    """
    settings = client_settings(kafka_bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    configure_client_logging(settings)
    print(f"Demo traffic from {', '.join(SERVICES)} to {settings.kafka_bootstrap_servers}; Ctrl-C ends it.", flush=True)
    await run_fleet(settings, seconds=seconds)
