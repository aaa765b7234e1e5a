"""Log changes, refusals and losses with structured fields."""

from __future__ import annotations

import logging
from typing import Any, Final, Protocol, Self

from switchgear.arguments import impossible
from switchgear.guard.rejections import Rejection
from switchgear.telemetry.hooks import CircuitChange, Hooks
from switchgear_schemas.visible import line

_OPENING: Final = frozenset({"open", "forced_open"})
_METHODS: Final = ("debug", "info", "warning", "error")


class BindingLogger(Protocol):
    """A logger of structlog or loguru."""

    def bind(self, **fields: Any) -> Self:
        """Return the same logger with fields."""
        ...


class LoggingHooks(Hooks):
    """Log a record for each change, fallback (info), refusal (debug) and loss (error). An opening circuit is a warning.

    The fields are in ``extra``: ``tool``, ``circuit_id``, ``state``, ``source``, ``reason`` and others. structlog's
    ``ExtraAdder`` and most JSON formatters show them. For a logger of structlog or loguru they are bound.

    Args:
        logger: The logger to use, ``switchgear.circuits`` by default.

    Raises:
        SwitchgearError: ``logger`` isn't a logger.
    """

    def __init__(self, logger: logging.Logger | BindingLogger | None = None) -> None:
        if logger is None:
            logger = logging.getLogger("switchgear.circuits")
        if not isinstance(logger, logging.Logger) and not all(
            callable(getattr(logger, name, None)) for name in ("bind", *_METHODS)
        ):
            impossible("logger", "a logging.Logger, or one of structlog or loguru", logger)
        self._log: Any = logger
        self._binds = not isinstance(logger, logging.Logger)

    def on_transition(self, change: CircuitChange) -> None:
        """Log the change."""
        self._write(
            "warning" if change.state in _OPENING else "info",
            "the %s circuit of %s is %s%s",
            (change.source, change.circuit_id, change.state, f" ({change.reason})" if change.reason else ""),
            {
                "tool": change.tool,
                "circuit_id": change.circuit_id,
                "state": change.state,
                "previous_state": change.previous,
                "source": change.source,
                "generation": change.generation,
                "reason": change.reason,
                "retry_after_s": change.retry_after_s,
            },
        )

    def on_rejected(self, rejection: Rejection) -> None:
        """Log the refusal."""
        if self._binds or self._log.isEnabledFor(logging.DEBUG):
            self._write("debug", "a call of %s was refused", (rejection.tool,), _fields(rejection))

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Log the fallback."""
        fields = {**_fields(rejection), "fallback_tool": tool}
        self._write("info", "%s is called instead of %s", (tool, rejection.tool), fields)

    def on_drop(self, count: int) -> None:
        """Log the loss."""
        self._write("error", "%d events were dropped", (count,), {"dropped": count})

    def _write(self, level: str, text: str, facts: tuple[object, ...], fields: dict[str, object]) -> None:
        facts = tuple(
            line(fact) if isinstance(fact, str) else fact for fact in facts
        )  # on one line; the fields keep their values
        if self._binds:
            getattr(self._log.bind(**fields), level)(text % facts)
        else:
            getattr(self._log, level)(text, *facts, extra=fields)


def _fields(rejection: Rejection) -> dict[str, object]:
    return {
        "tool": rejection.tool,
        "state": rejection.state,
        "source": rejection.source,
        "reason": rejection.reason,
        "retry_after_s": rejection.retry_after_s,
    }
