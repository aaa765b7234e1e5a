"""``switchgear up``: the whole system on this machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.logs import configure_client_logging
from switchgear_cli.terminal import terminal_console
from switchgear_cli.up.plan import make_plan
from switchgear_cli.up.run import run_up
from switchgear_schemas.settings import load_settings


async def up(
    *,
    data_dir: Annotated[Path | None, Parameter(help="Where everything is kept.")] = None,
    api_port: Annotated[int | None, Parameter(help="Port of the HTTP API; 8620 or the next free one.")] = None,
    gateway_port: Annotated[int | None, Parameter(help="Port of the gateway; 8622 or the next free one.")] = None,
    kafka_port: Annotated[int | None, Parameter(help="Port of Kafka; 9092 or the next free one.")] = None,
    workers: Annotated[int, Parameter(help="How many stream workers.")] = 1,
    alerts: Annotated[Path | None, Parameter(help="Send alerts by this file of receivers and routes, TOML.")] = None,
    demo: Annotated[bool, Parameter(help="Send the traffic of a small demo fleet; --no-demo takes it back.")] = False,
) -> None:
    """Run Kafka, a stream worker, the sink with ClickHouse's engine and the HTTP API, and the gateway, until Ctrl-C.

    It needs no Docker, no Java and no server. The data stay for the next start. Other commands find the running system by
    themselves. Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 could not start.
    """
    settings = load_settings(data_dir=data_dir, alerts_file=alerts)
    configure_client_logging(settings)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    plan = make_plan(
        settings, api_port=api_port, gateway_port=gateway_port, kafka_port=kafka_port, workers=workers, demo=demo
    )
    await run_up(plan, terminal_console(emoji=False))
