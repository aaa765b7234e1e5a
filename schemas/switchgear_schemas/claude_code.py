"""The events that Claude Code sends to its hooks, as far as Switchgear uses them, and the answers that it reads.

The fields are those of https://code.claude.com/docs/en/hooks. They are the same for a command hook, which reads the event from standard
input, for an HTTP hook, and for the hooks of the Claude Agent SDK. A command hook starts for each event, so this module imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.families import DEFAULT_PATTERN, circuit_name, family_of
from switchgear_schemas.globs import any_matches

DEFAULT_TOOLS: Final = "mcp__*"
"""Built-in tools are left out: an exit code of Bash says nothing about Bash."""
NOTICE_EVENTS: Final = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose answer may add a text for the model."""
END_EVENTS: Final = frozenset({"PostToolUse", "PostToolUseFailure"})
"""Events that say how a call ended."""
_MOST_MS: Final = 30 * 86_400_000
"""No call takes longer than a month."""

Event = Mapping[str, Any]
"""An event of Claude Code."""
Answer = dict[str, Any]
"""What Claude Code reads from standard output, or from the body of a response with status 200."""


class HookCall(NamedTuple):
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
        own = circuit_id(self.tool)
        return (own,) if self.family is None else (own, circuit_id(self.family, "family"))


def call_of(event: Event, tools: str = DEFAULT_TOOLS, family_pattern: str = DEFAULT_PATTERN) -> HookCall | None:
    """Return the call that an event is about. Return None if its tool is not guarded, or a field is missing.

    Args:
        event: As Claude Code sends it.
        tools: Which tools are guarded: globs over Claude Code's names, comma-separated.
        family_pattern: Which tools belong to a family.
    """
    name, session, call = (text(event.get(field)) for field in ("tool_name", "session_id", "tool_use_id"))
    tool = circuit_name(name)
    if not name or len(tool) > MAX_NAME_LENGTH or not any_matches(tools, name):
        return None
    return HookCall(name, tool, family_of(tool, family_pattern), session, call, event.get("tool_input"))


def says_failed(event: Event) -> bool:
    """Return whether an event of :data:`END_EVENTS` says that the call failed. If not, nothing else in it is needed."""
    if event.get("hook_event_name") == "PostToolUseFailure":
        return True
    response = event.get("tool_response")
    return isinstance(response, Mapping) and bool(response.get("isError") or response.get("is_error"))


def duration_ms(event: Event) -> float | None:
    """Return the call's duration in milliseconds. None if it is impossible. Older releases of Claude Code don't send it."""
    value = event.get("duration_ms")
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _MOST_MS:
        return None
    return float(value)


def refusal(reason: str) -> Answer:
    """Return the answer that refuses a call. The model reads the reason.

    There is no answer that permits one: ``allow`` would skip the question to the user. Without an answer the permissions decide as usual.
    """
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def context(kind: str, said: str) -> Answer:
    """Return the answer to an event of :data:`NOTICE_EVENTS` that adds a text for the model."""
    return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": said}}


def text(value: object) -> str:
    """Return a value if it is text, else an empty string."""
    return value if isinstance(value, str) else ""
