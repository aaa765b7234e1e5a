"""Values whose name says that they are secret: ``token=abc``, ``"apiKey": ["abc"]``, ``('Cookie', 'sid=abc')``, ``--password abc``.

Names and values may be strings (``'--password', 'abc'``). A value is a string of Python's or JSON's (within JSON within JSON too), a list or an object with all that is in it, or a word.
All patterns are compiled at the first message, and then kept by ``re``: the import must not wait for it.
"""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "[redacted]"

_TELLING_NAME: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|client[_-]?secret|refresh[_-]?token|access[_-]?token|id[_-]?token|session[_-]?key|signature|sig|x-api-key"
    r"|account[_-]?key|shared[_-]?key|signing[_-]?key|encryption[_-]?key|secret[_-]?key(?:[_-]?base)?"
)
_TELLING: Final = rf"(?i)(?:^|[_-]|(?=(?-i:[A-Z])))(?:{_TELLING_NAME})$"
"""The end of a name: of the whole, after a dash, or camelCase."""
_HEADER: Final = r"(?i)(?:^|[_-])(?:authorization|cookies?)$"
"""Telling where the value is written as data. A plain one (``Cookie: a=b; c=d``) goes on to the line's end, or is prose."""
_NAME: Final = (
    r"(?<![A-Za-z0-9_-])(?P<name>[A-Za-z0-9_-]{2,160}+)"
    r"(?:\\{0,32}[\"']?\]?\s{0,4}[:=]{1,2}>?|\\{0,32}[\"'](?P<comma>,))\s{0,4}"
)
"""What stands before a value: possessive, so that no word is looked at twice. After a comma: in pairs and arguments."""
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
"""What opens a list, an object, or something like ``SecretStr('abc')``; a bracket in prose is followed by something else."""
_BRACKETED: Final = r"[\[({][^\[\](){}]{0,400}[\])}]"
_WORD: Final = r"[^\s\"'&,;)}\]]+"
_OPTION: Final = (
    r"(?<![A-Za-z0-9_-])--?(?P<name>[A-Za-z][A-Za-z0-9_-]{1,80}+)\s{1,4}+(?!-|(?i:a|an|and|are|as|but|by|can|cannot|did|does|for|from|has|have"
    r"|if|in|is|it|may|must|needs?|no|not|of|on|or|requires?|required|should|the|then|to|was|were|when|which|will|with|without)[.,;:!?]?(?:\s|\Z))"
)
"""Of a command in one line of text. A word of prose after it says that it is spoken of."""
_SHELL_WORD: Final = r"[^\s\"'`]+"


def without_named(text: str) -> str:
    """``text`` without the values whose name says that they are secret; the names stay. What is ``MARK`` already stays too."""
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
    """``text`` without the values of options whose name says that they are secret."""
    parts: list[str] = []
    done = 0
    for option in re.finditer(_OPTION, text):
        at = option.end()
        if option.start() < done or text.startswith(MARK, at) or re.search(_TELLING, option["name"]) is None:
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
    """Where the value after ``pair`` ends, which is where it begins if it is empty; None where the name says nothing of it."""
    name, at = pair["name"], pair.end()
    telling = re.search(_TELLING, name) is not None
    if (not telling and re.search(_HEADER, name) is None) or text.startswith(MARK, at):
        return None
    if pair["comma"] is None:
        end = _end_of_data(text, at)
        return _end_of_word(text, at) if end is None and telling else end
    end = _end_of_string(text, at)
    if end is None or name.startswith("-"):  # an argument of a command
        return end
    # A pair of just these two: longer lists, such as ['token', 'user'], are of names, as a rule.
    opens = re.search(_OPENS_PAIR, text[max(0, pair.start() - 40) : pair.start()]) is not None
    closes = end == len(text) or re.compile(_CLOSES_PAIR).search(text, at + 1, end + 6) is not None
    return end if opens and closes else None


def _end_of_data(text: str, at: int) -> int | None:
    """Where the string, list or object ends that begins at ``at``: with the text, where it is cut; None where there is none."""
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
    return end if end > opening.end() + len(opening[0]) else at  # an empty one hides nothing


def _closing(text: str, at: int, quote: str, escapes: int) -> int | None:
    """The end of a string's closing quote: one that is escaped as the opening one is, however often that was written as JSON.

    One that is escaped more is part of the string, also where it follows a backslash of the string's own: rather too much.
    """
    candidates = re.compile(rf"(?<!\\)(\\*+){quote}").finditer(text, at)
    return next((found.end() for found in candidates if len(found[1]) <= escapes), None)


def _end_of_word(text: str, at: int) -> int | None:
    word = re.compile(_BRACKETED).match(text, at) or re.compile(_WORD).match(text, at)
    return None if word is None else word.end()
