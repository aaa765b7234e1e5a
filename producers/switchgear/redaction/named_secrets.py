"""Find values whose name says that they are secret: ``token=abc``, ``"apiKey": ["abc"]``, ``('Cookie', 'sid=abc')``, ``--password abc``.

A value is a string of Python or JSON (also in nested JSON), a list or object with its content, or a word. ``re`` compiles the
patterns at the first message, so the import stays fast.
"""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "[redacted]"

_WORDS: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|client[_-]?secret|refresh[_-]?token|access[_-]?token|id[_-]?token|session[_-]?key|signature|sig|x-api-key"
    r"|account[_-]?key|shared[_-]?key|signing[_-]?key|encryption[_-]?key|secret[_-]?key(?:[_-]?base)?"
)
_NAME_OF_SECRET: Final = rf"(?i)(?:^|[_-]|(?=(?-i:[A-Z])))(?:{_WORDS})$"
"""The end of a secret's name: the whole name, the part after a dash, or the last part in camelCase."""
_HEADER: Final = r"(?i)(?:^|[_-])(?:authorization|cookies?)$"
"""Names that are secret if the value is written as data. A plain value (``Cookie: a=b; c=d``) goes to the end of the line, or is prose."""
_NAME: Final = (
    r"(?<![A-Za-z0-9_-])(?P<name>[A-Za-z0-9_-]{2,160}+)"
    r"(?:\\{0,32}[\"']?\]?\s{0,4}[:=]{1,2}>?|\\{0,32}[\"'](?P<comma>,))\s{0,4}"
)
"""A name and the characters before its value. The quantifiers are possessive, so that no word is read twice. A comma is in pairs and arguments."""
_A_STRING: Final = r"[bBuU]?\\{0,32}[\"']"
_OPENS_PAIR: Final = rf"\(\s{{0,4}}{_A_STRING}$"
_CLOSES_PAIR: Final = r"[\"']\s{0,4}\)"
_BEFORE_STRING: Final = r"[bBuUrRfF]{0,2}(?=\\{0,32}[\"'])"
_QUOTE: Final = r"(?<!\\)(?P<escapes>\\*+)(?P<quote>[\"'])"
_BRACKET_OR_QUOTE: Final = rf"{_QUOTE}|(?P<opens>[\[({{])|[\])}}]"
_DATA: Final = (
    rf"(?:[A-Za-z_][A-Za-z0-9_.]{{0,40}}(?=[\[({{]\s{{0,4}}{_A_STRING}))?"
    rf"[\[({{]\s{{0,8}}(?={_A_STRING}|[\[({{0-9]|\w{{1,80}}+\s?[:=])"
)
"""The beginning of a list, an object, or something like ``SecretStr('abc')``. A bracket in prose doesn't match."""
_BRACKETED: Final = r"[\[({][^\[\](){}]{0,400}[\])}]"
_WORD: Final = r"[^\s\"'&,;)}\]]+"
_OPTION: Final = (
    r"(?<![A-Za-z0-9_-])--?(?P<name>[A-Za-z][A-Za-z0-9_-]{1,80}+)\s{1,4}+(?!-|(?i:a|an|and|are|as|but|by|can|cannot|did|does|for|from|has|have"
    r"|if|in|is|it|may|must|needs?|no|not|of|on|or|requires?|required|should|the|then|to|was|were|when|which|will|with|without)[.,;:!?]?(?:\s|\Z))"
)
"""An option in a command line. A word of prose after it means that the text is about the option."""
_SHELL_WORD: Final = r"[^\s\"'`]+"


def without_named(text: str) -> str:
    """Return ``text`` without the values of secret names. The names stay, and so does ``MARK``."""
    parts: list[str] = []
    done = 0
    for pair in re.finditer(_NAME, text):
        if pair.start() < done:
            continue
        end = _end_of_secret(text, pair)
        if end is not None and end > pair.end():
            parts += text[done : pair.end()], MARK
            done = end
    return "".join((*parts, text[done:]))


def without_options(text: str) -> str:
    """Return ``text`` without the values of options with secret names."""
    parts: list[str] = []
    done = 0
    for option in re.finditer(_OPTION, text):
        at = option.end()
        if option.start() < done or text.startswith(MARK, at) or re.search(_NAME_OF_SECRET, option["name"]) is None:
            continue
        end = _end_of_string(text, at)
        if end is None:
            word = re.compile(_SHELL_WORD).match(text, at)
            end = at if word is None else word.end()
        if end > at:
            parts += text[done:at], MARK
            done = end
    return "".join((*parts, text[done:]))


def _end_of_secret(text: str, pair: re.Match[str]) -> int | None:
    """Return the end of the value after ``pair``, or None if the name isn't secret. An empty value ends where it begins."""
    name, at = pair["name"], pair.end()
    is_secret = re.search(_NAME_OF_SECRET, name) is not None
    if (not is_secret and re.search(_HEADER, name) is None) or text.startswith(MARK, at):
        return None
    if pair["comma"] is None:
        end = _end_of_data(text, at)
        return _end_of_word(text, at) if end is None and is_secret else end
    end = _end_of_string(text, at)
    if end is None or name.startswith("-"):  # an argument of a command
        return end
    # Only a pair of exactly two: longer lists, such as ['token', 'user'], usually have names only.
    opens = re.search(_OPENS_PAIR, text[max(0, pair.start() - 40) : pair.start()]) is not None
    closes = end == len(text) or re.compile(_CLOSES_PAIR).search(text, at + 1, end + 6) is not None
    return end if opens and closes else None


def _end_of_data(text: str, at: int) -> int | None:
    """Return the end of the string, list or object that begins at ``at``, or None. A truncated one ends with the text."""
    end = _end_of_string(text, at)
    if end is not None:
        return end
    data = re.compile(_DATA).match(text, at)
    if data is None:
        return None
    next_one = re.compile(_BRACKET_OR_QUOTE).search
    depth, found = 0, next_one(text, at)
    while found is not None:
        at = found.end()
        if found["quote"] is not None:
            at = _closing(text, at, found["quote"], len(found["escapes"])) or at
        else:
            depth += 1 if found["opens"] else -1
            if depth == 0:
                return at
        found = next_one(text, at)
    return len(text)


def _end_of_string(text: str, at: int) -> int | None:
    before = re.compile(_BEFORE_STRING).match(text, at)
    opening = None if before is None else re.compile(_QUOTE).match(text, before.end())
    if opening is None:
        return None
    end = _closing(text, opening.end(), opening["quote"], len(opening["escapes"]))
    if end is None:
        return len(text)
    return end if end > opening.end() + len(opening[0]) else at  # an empty string has nothing to hide


def _closing(text: str, at: int, quote: str, escapes: int) -> int | None:
    """Return the end of a string's closing quote, which has as many escapes as the opening quote (nested JSON has several).

    A quote with more escapes is part of the string. In doubt, the string is longer, so that nothing secret remains.
    """
    candidates = re.compile(rf"(?<!\\)(\\*+){quote}").finditer(text, at)
    return next((found.end() for found in candidates if len(found[1]) <= escapes), None)


def _end_of_word(text: str, at: int) -> int | None:
    word = re.compile(_BRACKETED).match(text, at) or re.compile(_WORD).match(text, at)
    return None if word is None else word.end()
