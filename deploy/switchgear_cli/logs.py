"""Logging of our processes: structlog, and the standard library's loggers through it, on standard error."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

import structlog
from structlog.typing import Processor

from switchgear_schemas.settings import Settings

# They tell of every connection attempt and every rebalance at INFO.
_QUIET: Final = ("aiokafka", "asyncio", "httpx", "httpcore", "kafka", "urllib3", "clickhouse_connect")

# Without the variables of every frame, which both renderers show by default: they hold passwords, and one failure of a worker with 18 circuits
# took 50,000 lines and half a minute to write (measured), while its circuits waited for another owner.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure_logging(settings: Settings) -> None:
    """Send every log line to standard error, as ``log_format`` and ``log_level`` say.

    Console: one line an event, coloured on a terminal unless ``NO_COLOR`` is set. JSON: one object a line, with an ISO 8601 time in UTC.
    """
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    rendering: list[Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def configure_client_logging(settings: Settings) -> None:
    """Logging of a command that asks and prints: as above, without Kafka's connection attempts.

    Such a command limits its wait and says in one sentence that no broker answered.
    """
    configure_logging(settings)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
