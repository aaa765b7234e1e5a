"""The options of the hook, and the calls that it guards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from switchgear_schemas import claude_code
from switchgear_schemas.claude_code import DEFAULT_TOOLS, HookCall
from switchgear_schemas.families import DEFAULT_PATTERN


class Options(NamedTuple):
    """What the command line says."""

    tools: str = DEFAULT_TOOLS
    """Which tools to guard: globs over Claude Code's names, comma-separated."""
    terminal_after: int | None = None
    """Stop the session at this many refused calls. None: never."""


def call_of(event: Mapping[str, Any], options: Options) -> HookCall | None:
    """Return the call that an event is about. Return None if its tool is not guarded, or a field is missing."""
    return claude_code.call_of(event, options.tools, family_pattern())


def family_pattern() -> str:
    """Return the setting ``family_pattern``."""
    return os.environ.get("SWITCHGEAR_FAMILY_PATTERN", DEFAULT_PATTERN)
