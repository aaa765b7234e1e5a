"""Which of several globs is the most specific for a tool."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import Final

_WILDCARDS: Final = re.compile(r"[*?\[]")
_CLASS: Final = re.compile(r"\[!?\]?[^\]]*\]")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz_0123456789" + "".join(map(chr, range(33, 127)))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches(pattern: str, tool_name: str) -> bool:
    """Whether the glob (``*``, ``?``, ``[abc]``; case matters) covers the whole name. A name covers itself."""
    return pattern == tool_name or _compiled(pattern).match(tool_name) is not None


def is_glob(pattern: str) -> bool:
    """Whether the pattern has wildcards."""
    return _WILDCARDS.search(pattern) is not None


def specificity(pattern: str) -> tuple[bool, int, int]:
    """Sort key, larger is more specific: a plain name, then the longer literal prefix, then more literal characters."""
    if not is_glob(pattern):
        return True, len(pattern), len(pattern)
    first = _WILDCARDS.search(pattern)
    assert first is not None
    literal = len(re.sub(r"\[[^\]]*\]|[*?]", "", pattern))
    return False, first.start(), literal


def sample_of(pattern: str) -> str:
    """A tool name that the glob covers, to try its policy on. A glob that covers no name gets some name."""
    return _CLASS.sub(lambda found: _one_of(found.group()), pattern).replace("*", "x").replace("?", "x")


def _one_of(group: str) -> str:
    return next((letter for letter in (*group[1:-1], *_LETTERS) if fnmatch.fnmatchcase(letter, group)), "x")
