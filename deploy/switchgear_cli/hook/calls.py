"""The events of Claude Code, as far as Switchgear uses them, and the names of its tools.

The fields are those of https://code.claude.com/docs/en/hooks. The Claude Agent SDK passes the same to its hooks.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from switchgear_schemas.families import DEFAULT_PATTERN, circuit_name, family_circuit_id, family_of

MOST_NAME: Final = 256
DEFAULT_TOOLS: Final = "mcp__*"
"""Built-in tools are left out: an exit code of Bash says nothing about Bash."""


class Options(NamedTuple):
    """What the command line says."""

    tools: str = DEFAULT_TOOLS
    """Which tools to guard: globs over Claude Code's names, comma-separated."""
    terminal_after: int | None = None
    """Stop the session at this many refused calls. None: never."""

    def guards(self, tool: str) -> bool:
        """Return whether a tool is guarded."""
        return any(fnmatch.fnmatchcase(tool, glob.strip()) for glob in self.tools.split(","))


class Call(NamedTuple):
    """A tool call of a session."""

    name: str
    """Claude Code's name of the tool."""
    tool: str
    """The name of its circuit."""
    family: str | None
    session: str
    call: str
    """Its ``tool_use_id``."""
    arguments: Any

    @property
    def circuit_ids(self) -> tuple[str, ...]:
        """The circuits that decide about it."""
        return (self.tool,) if self.family is None else (self.tool, family_circuit_id(self.family))


def call_of(event: Mapping[str, Any], options: Options) -> Call | None:
    """Return the call that an event is about. Return None if its tool is not guarded, or a field is missing."""
    name, session, call = (text(event.get(field)) for field in ("tool_name", "session_id", "tool_use_id"))
    tool = circuit_name(name)
    if not name or len(tool) > MOST_NAME or not options.guards(name):
        return None
    return Call(name, tool, family_of(tool, family_pattern()), session, call, event.get("tool_input"))


def family_pattern() -> str:
    """Return the setting ``family_pattern``."""
    return os.environ.get("SWITCHGEAR_FAMILY_PATTERN", DEFAULT_PATTERN)


def text(value: object) -> str:
    """Return a value if it is text, else an empty string."""
    return value if isinstance(value, str) else ""
