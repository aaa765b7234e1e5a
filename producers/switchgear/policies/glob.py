"""Globs: which tools they cover, which is the most specific, and names that several of them share."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

_WILDCARDS: Final = re.compile(r"[*?\[]")
_CLASS: Final = re.compile(r"\[!?\]?[^\]]*\]")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz_0123456789" + "".join(map(chr, range(33, 127)))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches(pattern: str, tool_name: str) -> bool:
    """Return whether the glob (``*``, ``?``, ``[abc]``, case matters) covers the whole name. A name covers itself."""
    return pattern == tool_name or _compiled(pattern).match(tool_name) is not None


def is_glob(pattern: str) -> bool:
    """Return whether the pattern has wildcards."""
    return _WILDCARDS.search(pattern) is not None


def specificity(pattern: str) -> tuple[bool, int, int]:
    """Return a sort key. The largest is a plain name, then the longer literal prefix, then more literal characters."""
    first = _WILDCARDS.search(pattern)
    if first is None:
        return True, len(pattern), len(pattern)
    literal = len(re.sub(r"\[[^\]]*\]|[*?]", "", pattern))
    return False, first.start(), literal


def sample_of(pattern: str) -> str:
    """Return a tool name that the glob covers, to try its policy on. For a glob that covers no name, return some name."""
    return _CLASS.sub(lambda found: _one_of(found.group()), pattern).replace("*", "x").replace("?", "x")


def _one_of(group: str) -> str:
    return next((letter for letter in (*group[1:-1], *_LETTERS) if fnmatch.fnmatchcase(letter, group)), "x")


def shared_names(patterns: Sequence[str]) -> Iterator[str]:
    """Yield names that one or more of the globs cover: of each glob alone, and of globs put into its last ``*``, one after the other.

    Some overlaps are missed: ``ab*c`` and ``a*bc`` share ``abc``.
    """
    for pattern in patterns:
        joined = pattern
        yield sample_of(pattern)
        for other in patterns:
            before, star, after = joined.rpartition("*")
            if not star:
                break
            nested = f"{before}{other}{after}"
            name = sample_of(nested)
            if matches(other, name) and matches(pattern, name):
                joined = nested
                yield name
