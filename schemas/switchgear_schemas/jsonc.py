"""JSON with comments and trailing commas, as editors write it: read it, and change it in place.

A change keeps all bytes of what stays the same: comments, indentation, the form of numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_COMMENTS: Final = re.compile(rf"{_STRING}|(//[^\n]*|/\*.*?\*/)", re.DOTALL)
_LAST_COMMAS: Final = re.compile(rf"{_STRING}|(,)(?=\s*[}}\]])", re.DOTALL)
_VISIBLE: Final = re.compile(r"[^\s]")
_SPACE: Final = re.compile(r"\s*")


def parsed(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a text.

    Args:
        text: The text.
        pairs: Makes an object of its members. By default a dict.

    Raises:
        ValueError: It can't be read.
    """
    return json.loads(_without_commas(_without_comments(text)), object_pairs_hook=pairs)


def patched(text: str, value: dict[str, Any]) -> str:
    """Return the text with another value. Members that are the same in both keep their bytes.

    Args:
        text: A text with an object.
        value: What it holds then.
    """
    windows = "\r\n" in text
    text = text.replace("\r\n", "\n")
    plain = _without_comments(text)
    begin = _after_space(plain, 0)
    _, end = _decoder.raw_decode(_without_commas(plain), begin)
    found = text[:begin] + _Patch(text, plain).object(begin, value, "") + text[end:]
    return found.replace("\n", "\r\n") if windows else found


_decoder: Final = json.JSONDecoder()


def _without_comments(text: str) -> str:
    """Return the text with spaces in place of comments. All other characters keep their places."""
    return _COMMENTS.sub(lambda found: found[0] if found[1] is None else _VISIBLE.sub(" ", found[1]), text)


def _without_commas(plain: str) -> str:
    return _LAST_COMMAS.sub(lambda found: found[0] if found[1] is None else " ", plain)


def _after_space(plain: str, place: int) -> int:
    found = _SPACE.match(plain, place)
    return place if found is None else found.end()


@dataclass(slots=True)
class _Member:
    """A member of an object.

    Attributes:
        key: Its key.
        lead: The text before the key.
        text: The text of the key and the value.
        trail: The text between the value and the comma.
    """

    key: str
    lead: str
    text: str
    trail: str = ""


class _Patch:
    def __init__(self, text: str, plain: str) -> None:
        self._text, self._plain, self._strict = text, plain, _without_commas(plain)
        found = re.search(r'[{\[]\s*\n([ \t]+)["{]', plain)
        self._unit = found[1] if found else ("  " if "\n" in text.strip() else None)
        """The indentation of one level. None: all is in one line."""

    def object(self, begin: int, new: dict[str, Any], outer: str) -> str:
        """Return the text of an object with other members.

        Args:
            begin: The place of its brace.
            new: Its members.
            outer: The indentation of the line that it begins in.
        """
        found, closing, comma = self._members(begin, new, outer)
        members, rest = _without_others(found, new)
        if rest:
            closing = rest.rstrip() + (closing if "\n" in closing else f"\n{closing}")
        lead = "\n" + outer + (self._unit or "") if self._unit is not None else ""
        if found:
            first = found[0].lead
            lead = first[first.rindex("\n") :] if "\n" in first else ""
        elif new and lead and not closing.strip():
            closing = "\n" + outer
        known = {each.key for each in members}
        for place, key in enumerate(new):
            if key not in known:
                members.insert(place, _Member(key, lead, self._rendered(key, new[key], lead)))
        for each in members[1:]:
            each.lead = each.lead or " "
        inner = ",".join(f"{each.lead}{each.text}{each.trail}" for each in members)
        return "{" + inner + ("," if comma and members else "") + closing + "}"

    def _members(self, begin: int, new: dict[str, Any], outer: str) -> tuple[list[_Member], str, bool]:
        """Return the members of an object with their new values, the text before its end, and whether a comma is before that."""
        plain, found, place, comma = self._plain, list[_Member](), begin + 1, False
        while plain[start := _after_space(plain, place)] != "}":
            lead = self._text[place:start]
            inner = lead[lead.rindex("\n") + 1 :] if "\n" in lead else outer
            key, end = _decoder.raw_decode(plain, start)
            value = _after_space(plain, _after_space(plain, end) + 1)
            old, after = _decoder.raw_decode(self._strict, value)
            text = self._text[start:after]
            if key in new and new[key] != old:
                text = self._text[start:value] + self._changed(value, old, new[key], inner, inline="\n" not in lead)
            following = _after_space(plain, after)
            comma = plain[following] == ","
            found.append(_Member(key, lead, text, self._text[after:following] if comma else ""))
            place = following + 1 if comma else after
        return found, self._text[place:start], comma

    def _changed(self, begin: int, old: Any, new: Any, outer: str, *, inline: bool) -> str:
        if isinstance(old, dict) and isinstance(new, dict):
            return self.object(begin, new, outer)
        return self._written(new, None if inline else outer)

    def _rendered(self, key: str, value: Any, lead: str) -> str:
        written = self._written(value, lead.removeprefix("\n") if lead else None)
        return f"{json.dumps(key, ensure_ascii=False)}: {written}"

    def _written(self, value: Any, outer: str | None) -> str:
        """Return a value as text, in one line if ``outer`` is None."""
        indent = None if outer is None else self._unit
        try:
            found = json.dumps(value, ensure_ascii=False, indent=indent)
            found.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
            found = json.dumps(value, indent=indent)
        return found.replace("\n", f"\n{outer}")


def _without_others(members: list[_Member], kept: Collection[str]) -> tuple[list[_Member], str]:
    """Return the members that stay, and what is to be written after the last. The comments of the others stay."""
    found, carried = list[_Member](), ""
    for each in members:
        if carried.strip():
            each.lead = carried + each.lead
        elif not each.lead.strip() and not found and each is not members[0]:
            each.lead = members[0].lead
        if each.key in kept:
            found.append(each)
            carried = ""
        else:
            carried = (each.lead + each.trail) if (each.lead + each.trail).strip() else ""
    return found, carried
