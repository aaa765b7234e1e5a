"""Log changes, refusals and losses with structured fields."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

from switchgear.arguments import impossible
from switchgear.guard.rejections import Rejection
from switchgear.telemetry.hooks import CircuitChange, Hooks
from switchgear_schemas.enums import REFUSING
from switchgear_schemas.visible import line


class LoggingHooks(Hooks):
    """Log a record for each change, fallback (info), refusal (debug) and loss (error). An opening circuit is a warning.

    The fields are in ``extra``: ``tool``, ``circuit_id``, ``state``, ``source``, ``reason`` and others. structlog's
    ``ExtraAdder`` and most JSON formatters show them. For a logger of structlog or loguru they are bound.

    Args:
        logger: The logger to use, ``switchgear.circuits`` by default.

    Raises:
        SwitchgearError: ``logger`` isn't a logger.
    """

    def __init__(self, logger: logging.Logger | Any = None) -> None:
        if logger is None:
            logger = logging.getLogger("switchgear.circuits")
        self._binds = not isinstance(logger, logging.Logger)
        if self._binds and not hasattr(logger, "bind"):
            impossible("logger", "a logging.Logger, or one of structlog or loguru", logger)
        self._log: Any = logger

    def on_transition(self, change: CircuitChange) -> None:
        """Log the change."""
        level = "warning" if change.state in REFUSING else "info"
        reason = f" ({change.reason})" if change.reason else ""
        text = f"the {change.source} circuit of {change.circuit_id} is {change.state}{reason}"
        fields = asdict(change)
        fields["previous_state"] = fields.pop("previous")
        self._write(level, text, fields)

    def on_rejected(self, rejection: Rejection) -> None:
        """Log the refusal."""
        self._write("debug", f"a call of {rejection.tool} was refused", _fields(rejection))

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Log the fallback."""
        fields = {**_fields(rejection), "fallback_tool": tool}
        self._write("info", f"{tool} is called instead of {rejection.tool}", fields)

    def on_drop(self, count: int) -> None:
        """Log the loss."""
        self._write("error", f"{count} events were dropped", {"dropped": count})

    def _write(self, level: str, text: str, fields: dict[str, Any]) -> None:
        """Write ``text`` on one line. The fields keep their values."""
        if self._binds:
            getattr(self._log.bind(**fields), level)(line(text))
        else:
            getattr(self._log, level)(line(text), extra=fields)


def _fields(rejection: Rejection) -> dict[str, Any]:
    names = ("tool", "state", "source", "reason", "retry_after_s")
    return {name: getattr(rejection, name) for name in names}
