"""Selection: which dead letters are meant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.dead.letters import StoredLetter

_SPAN: Final = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*(s|min|m|h|d)")
_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything that is given must hold; what is None asks for nothing.

    Args:
        reason: Part of the reason, in any case of letters.
        component: Who rejected it: ``worker`` or ``sink``.
        tool: Name of the tool.
        field: Name of the field the reason is about.
        since: Messages that came at or after this.
    """

    reason: str | None = None
    component: str | None = None
    tool: str | None = None
    field: str | None = None
    since: datetime | None = None

    def holds(self, found: StoredLetter) -> bool:
        """``found`` is meant."""
        letter = found.letter
        return (
            (self.reason is None or self.reason.casefold() in letter.reason.casefold())
            and (self.component is None or self.component == letter.component)
            and (self.field is None or self.field == letter.field)
            and (self.since is None or found.at >= self.since)
            and (self.tool is None or self.tool == found.tool)
        )


def moment(text: str | None, now: datetime) -> datetime | None:
    """Read ``90s``, ``15m``, ``2h``, ``7d`` (before ``now``) or a date and time; one without an offset is UTC.

    Raises:
        SwitchgearError: it is neither.
    """
    if text is None:
        return None
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return now - timedelta(seconds=float(span[1]) * _UNITS[span[2]])
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SwitchgearError(
            f"--since {text!r} is no time.", hint="Write it like 2h, 7d or 2026-11-21T10:00:00Z."
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
