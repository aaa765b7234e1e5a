"""LoggingHooks: changes, refusals and losses as log records with fields, for structlog or any JSON formatter."""

from __future__ import annotations

import logging
from typing import Final

from switchgear.circuit_change import CircuitChange
from switchgear.guard.rejection import Rejection
from switchgear.hooks import Hooks

_OPENING: Final = frozenset({"open", "forced_open"})


class LoggingHooks(Hooks):
    """One record a change (warning where a circuit opens, else info), fallback (info), refusal (debug) and loss (error).

    Each has its facts in ``extra``: ``tool``, ``circuit_id``, ``state``, ``source``, ``reason`` and so on. structlog's
    ``ExtraAdder`` and most JSON formatters make fields of them.

    Args:
        logger: who logs; ``switchgear.circuits`` unless given.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log = logger or logging.getLogger("switchgear.circuits")

    def on_transition(self, change: CircuitChange) -> None:
        """A circuit changed its state."""
        self._log.log(
            logging.WARNING if change.state in _OPENING else logging.INFO,
            "the %s circuit of %s is %s%s",
            change.source,
            change.circuit_id,
            change.state,
            f" ({change.reason})" if change.reason else "",
            extra={
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
        if self._log.isEnabledFor(logging.DEBUG):
            self._log.debug("a call of %s was refused", rejection.tool, extra=_fields(rejection))

    def on_fallback(self, rejection: Rejection, tool: str) -> None:
        """Something else is called."""
        self._log.info(
            "%s is called instead of %s", tool, rejection.tool, extra={**_fields(rejection), "fallback_tool": tool}
        )

    def on_drop(self, count: int) -> None:
        """Events were given up."""
        self._log.error("%d events were dropped", count, extra={"dropped": count})


def _fields(rejection: Rejection) -> dict[str, object]:
    return {
        "tool": rejection.tool,
        "state": rejection.state,
        "source": rejection.source,
        "reason": rejection.reason,
        "retry_after_s": rejection.retry_after_s,
    }
