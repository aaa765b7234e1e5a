"""Families: the tools of one server, such as ``mcp:github:search`` and ``mcp:github:merge`` of ``mcp:github``.

Each family has a circuit of its own, and one worker owns it together with the circuits of its tools. Any client can compute a family:
it is the tool's name up to the last part of the setting ``family_pattern``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from switchgear_schemas.errors import SettingsError

DEFAULT_PATTERN: Final = "mcp:*:*"
_EXAMPLE: Final = f'Write parts with colons between them and * at the end, such as "{DEFAULT_PATTERN}".'


@lru_cache(maxsize=65_536)
def family_of(tool_name: str, pattern: str = DEFAULT_PATTERN) -> str | None:
    """Return the family of a tool: its name without the parts that the last ``*`` of the pattern takes. None if no pattern matches.

    Args:
        tool_name: Name of the tool.
        pattern: Patterns, comma-separated; the first that matches counts. Each has literal parts and ``*``, separated by colons. A
            ``*`` takes one part of the name; the last one takes all the rest. An empty pattern is off.

    Raises:
        SettingsError: The pattern is wrong.
    """
    for parts in patterns_of(pattern):
        named = tool_name.split(":", len(parts) - 1)
        if len(named) == len(parts) and all(named) and all(map(_takes, parts, named)):
            return ":".join(named[:-1])
    return None


def partition_key(tool_name: str, pattern: str = DEFAULT_PATTERN) -> str:
    """Return the key of a tool's messages: its family, or its own name if it has none. A family is its own key."""
    return family_of(tool_name, pattern) or tool_name


def is_family(name: str, pattern: str = DEFAULT_PATTERN) -> bool:
    """Return whether some tool can belong to a family of this name."""
    return family_of(f"{name}:x", pattern) == name


def canonical_pattern(pattern: str) -> str:
    """Return the pattern in the form that is the same for the same families. Workers compare it."""
    return ",".join(":".join(parts) for parts in patterns_of(pattern))


@lru_cache(maxsize=64)
def patterns_of(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Return the parts of each pattern.

    Raises:
        SettingsError: A pattern is wrong, or takes the name of another one's family for a tool.
    """
    found = [tuple(each.strip().split(":")) for each in pattern.split(",")] if pattern.strip() else []
    for parts in found:
        if len(parts) < 2 or parts[-1] != "*" or any(not part or ("*" in part and part != "*") for part in parts):
            raise SettingsError(f"family_pattern: {':'.join(parts)!r} is not a pattern of tool names.", hint=_EXAMPLE)
    for tools in found:
        for longer in found:
            if len(longer) > len(tools) and all(
                "*" in pair or pair[0] == pair[1] for pair in zip(tools, longer, strict=False)
            ):
                raise SettingsError(
                    f"family_pattern: {':'.join(tools)!r} takes families of {':'.join(longer)!r} for tools.",
                    hint="Remove one of the two patterns.",
                )
    return tuple(found)


def _takes(part: str, named: str) -> bool:
    return part in ("*", named)


_MCP_NAME: Final = "mcp__"
"""How Claude Code and other coding agents begin the names of MCP tools: ``mcp__server__tool``."""


def split_mcp_name(name: str) -> tuple[str, str] | None:
    """Return the server and the tool of ``mcp__server__tool``, as coding agents name MCP tools. None for other names."""
    server, _, tool = name.removeprefix(_MCP_NAME).partition("__")
    return (server, tool) if name.startswith(_MCP_NAME) and server and tool else None


def circuit_name(name: str) -> str:
    """Return ``mcp:server:tool`` for a coding agent's ``mcp__server__tool``, and other names as they are."""
    found = split_mcp_name(name)
    return name if found is None else f"mcp:{found[0]}:{found[1]}"


def model_name(tool: str) -> str:
    """Return a coding agent's name of a tool for the name that :func:`circuit_name` returns."""
    parts = tool.split(":", 2)
    return "__".join(parts) if parts[0] == "mcp" and len(parts) == 3 else tool
