"""What Faust writes to the log, kept to a readable amount."""

from __future__ import annotations

import logging
from typing import Final

CHATTY_LOGGERS: Final = (
    "faust",
    "mode",
    "switchgear_stream.app",
    "switchgear_stream.intake",
    "switchgear_stream.durable_table",
)
"""They write tables of every assignment at level info. mode names the loggers of subclasses after their modules."""


def quiet_libraries() -> None:
    """Hide the tables."""
    for name in CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
