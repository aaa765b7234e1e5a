"""``switchgear up``: the whole system on this machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.logs import configure_client_logging
from switchgear_cli.terminal import terminal_console
from switchgear_cli.up.plan import UpRequest
from switchgear_cli.up.run import run_up
from switchgear_schemas.settings import load_settings


async def up(
    *,
    data_dir: Annotated[Path | None, Parameter(help="Where everything is kept.")] = None,
    api_port: Annotated[
        int | None, Parameter(help="Port of the HTTP API; 8620, or the first free of 8630, 8640, …")
    ] = None,
    gateway_port: Annotated[
        int | None, Parameter(help="Port of the gateway; 8622, or the first free of 8632, 8642, …")
    ] = None,
    worker_port: Annotated[
        int | None, Parameter(help="Port of the first worker's /readyz; 8621, or the first free of 8631, 8641, …")
    ] = None,
    alerts_port: Annotated[
        int | None, Parameter(help="Port of /readyz of alerts; 8624, or the first free of 8634, 8644, …")
    ] = None,
    otlp_port: Annotated[
        int | None, Parameter(help="Port of OTLP over gRPC; 4317, or the first free of 4327, 4337, …")
    ] = None,
    kafka_port: Annotated[int | None, Parameter(help="Port of Kafka; 9092, or the first free of 9102, 9112, …")] = None,
    workers: Annotated[int, Parameter(help="How many stream workers.")] = 1,
    alerts: Annotated[Path | None, Parameter(help="Send alerts by this file of receivers and routes, TOML.")] = None,
    demo: Annotated[bool, Parameter(help="Send the traffic of a small demo fleet; --no-demo takes it back.")] = False,
    rewind: Annotated[
        bool, Parameter(negative=(), help="Read again what the store lacks, because its folder was lost.")
    ] = False,
) -> None:
    """Run Kafka, a stream worker, the sink with ClickHouse's engine and the HTTP API, and the gateway, until Ctrl-C.

    It needs no Docker, no Java and no server. The data stay for the next start. Other commands find the running system by
    themselves. Several can run side by side, each with its own --data-dir. Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 could not
    start.
    """
    settings = load_settings(data_dir=data_dir, alerts_file=alerts)
    configure_client_logging(settings)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    flags = {
        "--api-port": api_port,
        "--gateway-port": gateway_port,
        "--worker-port": worker_port,
        "--alerts-port": alerts_port,
        "--otlp-port": otlp_port,
        "--kafka-port": kafka_port,
    }
    named = {flag: port for flag, port in flags.items() if port is not None}
    await run_up(UpRequest(settings, named, workers, demo, rewind), terminal_console(emoji=False))
