"""The root logger: where lines go, and from which level."""

from __future__ import annotations

import logging
import sys
from typing import Final

from switchgear.runtime import kafka_log
from switchgear_cli.terminal import styled
from switchgear_schemas.settings import Settings

_QUIET: Final = ("aiokafka", "apprise", "asyncio", "httpx", "httpcore", "kafka", "urllib3", "clickhouse_connect")
"""They log every connection attempt and every rebalance at INFO. Apprise logs URLs with their tokens at DEBUG."""


def install(settings: Settings, formatter: logging.Formatter, *, without_kafka: str | None = None) -> None:
    """Send every log line to standard error.

    Args:
        settings: The level and the brokers.
        formatter: Writes a line.
        without_kafka: What it means for this process that Kafka is away, as a sentence for the log.
    """
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    handler = logging.StreamHandler(styled(sys.stderr))
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    kafka_log.install(settings.kafka_bootstrap_servers, meaning=without_kafka, everywhere=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    logging.getLogger("uvicorn").setLevel(
        max(level, logging.ERROR)
    )  # it warns of every malformed request, so anyone who can connect could fill the disk
