"""Limits: how many circuits an owner keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from switchgear.fleet.roster import MAX_SCOPED, MAX_TOOLS
from switchgear_schemas import InvalidExecutionError

WEEK_S: Final = 604_800.0
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds against invented names.

    Attributes:
        tools: Most tools of one partition.
        scoped: Most users' and sessions' circuits of one tool.
        tool_idle_s: A tool that was never published, commanded or refused retires after this long without an event, in seconds of
            the log's clock: the retention of the executions topic, so that nothing of it is left there to be read again.
    """

    tools: int = MAX_TOOLS
    scoped: int = MAX_SCOPED
    tool_idle_s: float = WEEK_S


class TooManyToolsError(InvalidExecutionError):
    """One more tool than a partition may hold; its events go to the dead letters."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(
            "tool_name",
            f"this is a new tool, and its partition holds {limits.tools:,} already, the most that a worker keeps apart; "
            "leave ids and arguments out of tool names (they belong into session_id and metadata). "
            f"Names that were not seen for {limits.tool_idle_s / _DAY_S:g} days make room; after that send this letter again",
        )
