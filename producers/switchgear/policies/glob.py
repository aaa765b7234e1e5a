"""Globs: which tools they cover, which is the most specific, and which sets of them can cover one tool."""

from __future__ import annotations

import fnmatch
import re
from collections import deque
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
    if not is_glob(pattern):
        return True, len(pattern), len(pattern)
    first = _WILDCARDS.search(pattern)
    assert first is not None
    literal = len(re.sub(r"\[[^\]]*\]|[*?]", "", pattern))
    return False, first.start(), literal


def sample_of(pattern: str) -> str:
    """Return a tool name that the glob covers, to try its policy on. For a glob that covers no name, return some name."""
    return _CLASS.sub(lambda found: _one_of(found.group()), pattern).replace("*", "x").replace("?", "x")


def _one_of(group: str) -> str:
    return next((letter for letter in (*group[1:-1], *_LETTERS) if fnmatch.fnmatchcase(letter, group)), "x")


MAX_STEPS: Final = 100_000
"""Steps of the search when a file is loaded, a second or two."""
_TOKEN: Final = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_FRESH: Final = "xyzwvqjkXYZWVQJK0123456789~"


class TooManyCoveringsError(Exception):
    """The globs overlap in more ways than can be checked."""


def coverings(patterns: Sequence[str]) -> Iterator[str]:
    """Yield a tool name for each different set of patterns that can cover one.

    The search begins with the set of each pattern, and adds one pattern at a time.

    Raises:
        TooManyCoveringsError: The search takes more than :data:`MAX_STEPS`.
    """
    fresh = next((letter for letter in _FRESH if not any(letter in pattern for pattern in patterns)), _FRESH[0])
    search = _Search(fresh)
    seen: set[frozenset[int]] = set()
    waiting: deque[frozenset[int]] = deque()

    def reached(chosen: Sequence[int]) -> Iterator[str]:
        name = search.common_name([patterns[index] for index in chosen])
        if name is None:
            return
        covering = frozenset(index for index, pattern in enumerate(patterns) if matches(pattern, name))
        if covering not in seen:
            seen.add(covering)
            waiting.append(covering)
            yield name

    prefixes = [re.split(r"[*?\[]", pattern, maxsplit=1)[0] for pattern in patterns]
    for index in range(len(patterns)):
        yield from reached([index])
    while waiting:
        covering = waiting.popleft()
        longest = max((prefixes[index] for index in covering), key=len)
        for index, prefix in enumerate(prefixes):
            if index not in covering and (prefix.startswith(longest) or longest.startswith(prefix)):
                yield from reached([*covering, index])


class _Search:
    """Searches for names that several globs share, as a walk through all of them at once.

    Args:
        fresh: A character for places where any one matches.
    """

    def __init__(self, fresh: str) -> None:
        self._fresh = fresh
        self._left = MAX_STEPS

    def common_name(self, patterns: Sequence[str]) -> str | None:
        """Return a name that every pattern covers, or None.

        Each ``*`` stands for at least one character if possible, so that few other patterns cover the name.

        Raises:
            TooManyCoveringsError: The steps are used up.
        """
        return self._walk([pattern.replace("*", "?*") for pattern in patterns]) or self._walk(patterns)

    def _walk(self, patterns: Sequence[str]) -> str | None:
        globs = [_TOKEN.findall(pattern) for pattern in patterns]
        start = tuple(_past_stars(glob, {0}) for glob in globs)
        names = {start: ""}
        waiting = deque([start])
        while waiting:
            places = waiting.popleft()
            if all(len(glob) in place for glob, place in zip(globs, places, strict=True)):
                return names[places]
            self._left -= 1
            if self._left < 0:
                raise TooManyCoveringsError
            tokens = [
                glob[at] for glob, place in zip(globs, places, strict=True) for at in sorted(place) if at < len(glob)
            ]
            for letter in dict.fromkeys((self._fresh, *(letter for token in tokens for letter in _letters(token)))):
                after = tuple(_step(glob, place, letter) for glob, place in zip(globs, places, strict=True))
                if all(after) and after not in names:
                    names[after] = names[places] + letter
                    waiting.append(after)
        return None


def _letters(part: str) -> list[str]:
    """Return the characters to try for a part. Of a class those are one of all characters, and those that it names."""
    if len(part) == 1:
        return [] if part in "*?" else [part]
    found = next((letter for letter in map(chr, range(33, 127)) if _covers(part, letter)), None)
    return [letter for letter in (found, *part[1:-1]) if letter is not None and _covers(part, letter)]


def _covers(part: str, letter: str) -> bool:
    return part in {"?", letter} or (len(part) > 1 and fnmatch.fnmatchcase(letter, part))


def _past_stars(tokens: list[str], places: set[int]) -> frozenset[int]:
    """Return the places, and those behind a ``*`` at which they are: it may stand for no character."""
    found = set(places)
    for place in places:
        at = place
        while at < len(tokens) and tokens[at] == "*":
            at += 1
            found.add(at)
    return frozenset(found)


def _step(tokens: list[str], places: frozenset[int], letter: str) -> frozenset[int]:
    """Return the places after one more character."""
    after = set()
    for place in places:
        if place < len(tokens):
            if tokens[place] == "*":
                after.add(place)
            elif _covers(tokens[place], letter):
                after.add(place + 1)
    return _past_stars(tokens, after)
