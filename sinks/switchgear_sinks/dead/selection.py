"""Selection: which dead letters are meant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from switchgear_sinks.dead.letters import StoredLetter


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
