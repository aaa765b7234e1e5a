"""Globs over the names of tools: how they are written, and which names they cover. It imports little."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches(pattern: str, tool_name: str) -> bool:
    """Return whether the glob (``*``, ``?``, ``[abc]``, case matters) covers the whole name. A name covers itself."""
    return pattern == tool_name or _compiled(pattern).match(tool_name) is not None


def any_matches(text: str, tool_name: str) -> bool:
    """Return whether one of the globs of a setting covers the whole name."""
    return any(matches(glob, tool_name) for glob in globs_in(text))


def globs_in(text: str | None) -> tuple[str, ...]:
    """Return the globs of a setting, which separates them by commas. Empty parts are left out."""
    return tuple(glob for part in (text or "").split(",") if (glob := part.strip()))
