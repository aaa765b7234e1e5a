"""Routes: which incidents go to which receivers, with which severity, and when."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator

from switchgear.policies.glob import matches
from switchgear_alerts.durations import Duration
from switchgear_alerts.messages import Facts, Severity
from switchgear_alerts.quiet import QuietHours, is_quiet, next_loud
from switchgear_schemas.enums import CircuitScope


class Route(BaseModel):
    """One ``[[routes]]`` table. An incident goes to the receivers of every route that matches it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    receivers: tuple[str, ...] = Field(min_length=1)
    tools: tuple[str, ...] = ("*",)
    families: tuple[str, ...] = ()
    scopes: tuple[CircuitScope, ...] = ("tool", "family")
    states: tuple[Literal["open", "forced_open"], ...] = ("open", "forced_open")
    severity: Severity = "error"
    lasting: Duration = Field(default=0.0, alias="for")
    quiet: tuple[QuietHours, ...] = ()

    @field_validator("tools")
    @classmethod
    def _some_tool(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(each.strip() for each in value):
            raise ValueError('matches nothing. Leave it out for all tools, or write globs such as "mcp:*"')
        return value

    @field_validator("families")
    @classmethod
    def _some_family(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(each.strip() for each in value):
            raise ValueError('has an empty glob. Leave it out for all families, or write globs such as "mcp:*"')
        return value

    @field_validator("scopes")
    @classmethod
    def _some_scope(cls, value: tuple[CircuitScope, ...]) -> tuple[CircuitScope, ...]:
        if not value:
            raise ValueError(
                'matches nothing. Leave it out for tools and families, or name "tool", "family", "user" or "session"'
            )
        return value

    @field_validator("states")
    @classmethod
    def _some_state(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError('matches nothing. Leave it out for both, or name "open" or "forced_open"')
        return value

    @field_validator("quiet")
    @classmethod
    def _sometimes_loud(cls, value: tuple[QuietHours, ...]) -> tuple[QuietHours, ...]:
        if next_loud(value, 0.0, ZoneInfo("UTC")) is None:
            raise ValueError("covers the whole week, so the route would never send anything")
        return value

    def matches(self, facts: Facts, held: str) -> bool:
        """Return whether the route is for this circuit in this state.

        Args:
            facts: The circuit.
            held: The state that refuses calls, ``open`` or ``forced_open``.
        """
        return held in self.states and self.is_for(facts)

    def is_for(self, facts: Facts) -> bool:
        """Return whether the route is for this circuit in some state."""
        return (
            facts.scope in self.scopes
            and any(matches(glob, facts.tool_name) for glob in self.tools)
            and (not self.families or any(matches(glob, facts.family or "") for glob in self.families))
        )

    def is_due(self, opened_at: float, until: float, now: float, timezone: ZoneInfo) -> bool:
        """Return whether an incident is announced. Times are seconds since 1970.

        Args:
            opened_at: When it opened.
            until: It lasted up to then, at least.
            now: When the announcement would be made. That is later than ``until`` while old records are read.
            timezone: Of the quiet hours.
        """
        earliest = opened_at + self.lasting
        if not self.quiet:
            return earliest <= until
        loud = next_loud(self.quiet, earliest, timezone)
        return (loud is None or loud <= until) and not is_quiet(self.quiet, now, timezone)
