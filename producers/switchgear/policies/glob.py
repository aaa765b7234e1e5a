"""Globs: which tools they cover, which is the most specific, and which sets of them can cover one tool."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from switchgear_schemas.globs import matches

__all__ = ["MAX_STATES", "TooManyOverlapsError", "coverings", "is_glob", "matches", "specificity"]

_WILDCARDS: Final = re.compile(r"[*?\[]")
_PART: Final = re.compile(r"\[!?+\]?+[^\]]*\]|.", re.DOTALL)
_LETTERS: Final = "xyzwvutsrqponmlkjihgfedcba_0123456789"
MAX_STATES: Final = 20_000
"""Bound of the search for sets of globs, a second at most."""


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


class TooManyOverlapsError(Exception):
    """The globs overlap in more ways than can be checked."""


def coverings(patterns: Sequence[str]) -> Iterator[str]:
    """Yield a name for each different set of the globs that can cover one name.

    All globs are matched at once, with one bit for each place in a glob (Baeza-Yates and Gonnet 1992). The search visits every state
    that a name can lead to, short names first.

    Raises:
        TooManyOverlapsError: There are more than :data:`MAX_STATES` states.
    """
    starts = ends = stars = 0
    places: defaultdict[str, int] = defaultdict(int)  # of each character, ? and class
    place = 1
    for pattern in patterns:
        starts |= place
        for part in _PART.findall(pattern):
            if part == "*":
                stars |= place
            else:
                places[part] |= place
                place <<= 1
        ends |= place
        place <<= 1
    letters = _letters("".join(patterns), places)
    waiting = [(starts, "")]
    states: set[int] = set()
    found: set[int] = set()
    for state, name in waiting:
        for taken, letter in letters.items():
            after = (state & taken) << 1 | (state & stars)
            if not after or after in states:
                continue
            if len(states) == MAX_STATES:
                raise TooManyOverlapsError
            states.add(after)
            waiting.append((after, name + letter))
            covering = after & ends
            if covering and covering not in found:
                found.add(covering)
                yield name + letter


def _letters(text: str, places: Mapping[str, int]) -> dict[int, str]:
    """Return one character for each different set of places that take it.

    Characters with the same set need one try. Along Unicode, the set changes at a character of ``text`` or right after one.
    """
    following = (chr(min(ord(letter) + 1, sys.maxunicode)) for letter in text)
    letters: dict[int, str] = {}
    for letter in dict.fromkeys((*_LETTERS, *text, *following)):
        taken = sum(
            at for part, at in places.items() if part in {"?", letter} or (len(part) > 1 and matches(part, letter))
        )
        letters.setdefault(taken, letter)
    return letters
