"""What Faust and aiokafka write to the log, kept to a readable amount."""

from __future__ import annotations

import logging
from typing import Final

from switchgear.runtime.throttled_log import Throttle

CHATTY_LOGGERS: Final = (
    "faust",
    "mode",
    "switchgear_stream.app",
    "switchgear_stream.intake",
    "switchgear_stream.durable_table",
)
"""They write tables of every assignment at level info. mode names the loggers of subclasses after their modules."""
REPEAT_S: Final = 1.0


class RepeatFilter(logging.Filter):
    """Let one line per second pass of each logger and message template, with the number left out.

    Args:
        name: The logger to filter, with its children. Lines of other loggers pass.
        throttle: Decides which lines pass.
    """

    def __init__(self, name: str, throttle: Throttle | None = None) -> None:
        super().__init__(name)
        self._throttle = Throttle(REPEAT_S) if throttle is None else throttle

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the line. If lines like it were left out, add their number."""
        if not super().filter(record):
            return True
        left_out = self._throttle.admit((record.name, str(record.msg)))
        if left_out is None:
            return False
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more like it)", ()
        return True


def quiet_libraries() -> None:
    """Apply both limits to the handlers of the root logger. aiokafka writes 100 lines per second while its broker is away."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.addFilter(RepeatFilter("aiokafka"))
    for name in CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
