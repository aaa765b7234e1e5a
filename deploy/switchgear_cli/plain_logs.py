"""Logging of a process that starts often and stays small: lines like those of :mod:`switchgear_cli.logs`, without structlog.

structlog takes 7 MB and a tenth of a second. It is imported for a terminal, for its colours, and for the first traceback.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from switchgear_cli.log_root import install
from switchgear_schemas import visible
from switchgear_schemas.settings import Settings

_EVENT_WIDTH: Final = 30
_LEVEL_WIDTH: Final = 9


def configure_small_logging(settings: Settings) -> None:
    """Send every log line to standard error, as ``log_format`` and ``log_level`` say."""
    if sys.stderr.isatty():
        from switchgear_cli.logs import formatter  # noqa: PLC0415 - see above

        install(settings, formatter(settings))
    else:
        install(settings, PlainFormatter(settings))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


class PlainFormatter(logging.Formatter):
    """Writes records as :func:`switchgear_cli.logs.formatter` does.

    Args:
        settings: The format.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._other: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        if record.exc_info or record.stack_info:
            return self._with_traceback(record)
        text, level = record.getMessage(), record.levelname.lower()
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if self._settings.log_format == "json":
            return json.dumps({"event": text, "level": level, "logger": record.name, "timestamp": time})
        event = visible.line(text).ljust(_EVENT_WIDTH)
        return f"{time} [{level:<{_LEVEL_WIDTH}}] {event} [{visible.line(record.name)}]"

    def _with_traceback(self, record: logging.LogRecord) -> str:
        if self._other is None:
            from switchgear_cli.logs import formatter  # noqa: PLC0415 - see above

            self._other = formatter(self._settings)
        return self._other.format(record)
