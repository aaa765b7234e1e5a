"""LoggingHooks: changes, refusals and losses as log records with fields, for structlog or any JSON formatter."""

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
    """A logger of structlog or loguru: fields are bound to it."""

    def bind(self, **fields: Any) -> Self:
        """The same logger with fields."""
        ...


class LoggingHooks(Hooks):
    """One record a change (warning where a circuit opens, else info), fallback (info), refusal (debug) and loss (error).

    Each has its facts in ``extra``: ``tool``, ``circuit_id``, ``state``, ``source``, ``reason`` and so on. structlog's
    ``ExtraAdder`` and most JSON formatters make fields of them. To a logger of structlog's or loguru's own they are bound.

    Args:
        logger: who logs; ``switchgear.circuits`` unless given.

    Raises:
        SwitchgearError: it is no logger.
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
        """A circuit changed its state."""
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
        """A call was refused."""
        if self._binds or self._log.isEnabledFor(logging.DEBUG):
            self._write("debug", "a call of %s was refused", (rejection.tool,), _fields(rejection))

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Something else is called."""
        fields = {**_fields(rejection), "fallback_tool": tool}
        self._write("info", "%s is called instead of %s", (tool, rejection.tool), fields)

    def on_drop(self, count: int) -> None:
        """Events were given up."""
        self._write("error", "%d events were dropped", (count,), {"dropped": count})

    def _write(self, level: str, text: str, facts: tuple[object, ...], fields: dict[str, object]) -> None:
        facts = tuple(line(fact) if isinstance(fact, str) else fact for fact in facts)  # the fields keep their values
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
