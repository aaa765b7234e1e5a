"""Which of several globs is the most specific for a tool."""

from __future__ import annotations

import fnmatch
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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


MOST_STEPS: Final = 100_000
"""Steps of the search at a load: a second or two."""
_TOKEN: Final = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_FRESH: Final = "xyzwvqjkXYZWVQJK0123456789~"


class TooManyCoveringsError(Exception):
    """The globs overlap in more ways than can be looked at."""


def coverings(patterns: Sequence[str]) -> Iterator[str]:
    """A tool name for each different set of patterns that can cover one.

    From each pattern's own set others are reached by adding one pattern at a time.

    Raises:
        TooManyCoveringsError: finding them takes more than :data:`MOST_STEPS`.
    """
    fresh = next((letter for letter in _FRESH if not any(letter in pattern for pattern in patterns)), _FRESH[0])
    search = Search(fresh)
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


class Search:
    """Looks for names that several globs share.

    Args:
        fresh: A character for places where any will do.
        steps: Places of the globs that are walked at most, by all searches together.

    Raises:
        TooManyCoveringsError: from :meth:`common_name`, when the steps are used up.
    """

    def __init__(self, fresh: str, steps: int = MOST_STEPS) -> None:
        self._fresh = fresh
        self._left = steps

    def common_name(self, patterns: Sequence[str]) -> str | None:
        """A name that every pattern covers; None where there is none.

        A ``*`` takes at least one character where all of them can: so the name is covered by as few others as may be.
        """
        return self._walk([pattern.replace("*", "?*") for pattern in patterns]) or self._walk(patterns)

    def _walk(self, patterns: Sequence[str]) -> str | None:
        globs = [_TOKEN.findall(pattern) for pattern in patterns]
        start = tuple(_past_stars(glob, {0}) for glob in globs)
        came: dict[tuple[frozenset[int], ...], str] = {start: ""}
        waiting = deque([start])
        while waiting:
            places = waiting.popleft()
            if all(len(glob) in place for glob, place in zip(globs, places, strict=True)):
                return came[places]
            self._left -= 1
            if self._left < 0:
                raise TooManyCoveringsError
            for letter in self._letters(globs, places):
                after = tuple(_step(glob, place, letter) for glob, place in zip(globs, places, strict=True))
                if all(after) and after not in came:
                    came[after] = came[places] + letter
                    waiting.append(after)
        return None

    def _letters(self, globs: list[list[str]], places: tuple[frozenset[int], ...]) -> dict[str, None]:
        """What is worth trying next; the first is the one that is in no pattern."""
        found = {self._fresh: None}
        for glob, place in zip(globs, places, strict=True):
            for at in sorted(place):
                if at < len(glob):
                    found |= dict.fromkeys(_letters(glob[at]))
        return found


def _letters(token: str) -> str:
    """What is worth trying for a token."""
    if len(token) == 1:
        return token.strip("*?")
    covers = _class(token)
    tried = [chr(code) for code in range(33, 127)]
    return "".join([letter for letter in tried if covers(letter)][:1]) + "".join(
        letter for letter in token[1:-1] if covers(letter)
    )


def _class(token: str) -> Callable[[str], bool]:
    return lambda letter: fnmatch.fnmatchcase(letter, token)


def _past_stars(tokens: list[str], places: set[int]) -> frozenset[int]:
    found = set(places)
    for place in places:
        at = place
        while at < len(tokens) and tokens[at] == "*":
            at += 1
            found.add(at)
    return frozenset(found)


def _step(tokens: list[str], places: frozenset[int], letter: str) -> frozenset[int]:
    after = set()
    for place in places:
        if place == len(tokens):
            continue
        wanted = tokens[place]
        if wanted == "*":
            after.add(place)
        elif wanted in {"?", letter} or (len(wanted) > 1 and _class(wanted)(letter)):
            after.add(place + 1)
    return _past_stars(tokens, after)
