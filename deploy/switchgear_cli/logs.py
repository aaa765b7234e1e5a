"""Configure logging: structlog, and the standard library's loggers through it, on standard error."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import ExcInfo, Processor

from switchgear_cli.log_root import install
from switchgear_schemas import visible
from switchgear_schemas.settings import Settings

# Both renderers show the variables of every frame by default. Those hold passwords, and one failure with them can fill
# tens of thousands of lines while the process should go on. So tracebacks go without them.
_OF_MANY_LINES: Final = frozenset({"exception", "stack"})
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
_SHARED: Final[list[Processor]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def configure_logging(settings: Settings, *, without_kafka: str | None = None) -> None:
    """Send every log line to standard error, as ``log_format`` and ``log_level`` say.

    Console: one line per event, coloured on a terminal unless ``NO_COLOR`` is set. JSON: one object per line, with an ISO 8601 time in UTC.

    Args:
        settings: The format, the level and the brokers.
        without_kafka: What it means for this process that Kafka is away, as a sentence for the log.
    """
    install(settings, formatter(settings), without_kafka=without_kafka)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def formatter(settings: Settings) -> logging.Formatter:
    """Return what writes records of the standard library's loggers, in the format of the settings."""
    rendering: list[Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            _one_line_each,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
                exception_formatter=_traceback,
            ),
        ]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )


def _one_line_each(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape foreign names and messages: they can't colour the log or begin a line of their own."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = visible.escaped(value) if key in _OF_MANY_LINES else visible.line(value)
    return event


def _traceback(stream: TextIO, failure: ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, failure)
    stream.write(visible.escaped(text.getvalue()))


def configure_client_logging(settings: Settings) -> None:
    """Configure logging of a command that asks and prints: as above, without Kafka's connection attempts.

    Such a command limits its wait and says in one sentence that no broker answered.
    """
    configure_logging(settings)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
