r"""Text of strangers as people read it: what a terminal obeys, and what can't be seen, is written as ``\uXXXX``.

By Unicode category: controls (Cc), format characters such as bidirectional marks, zero-width joiners and tags (Cf), surrogates (Cs), private
use (Co), characters without a meaning (Cn), and every separator but the space (Zl, Zp, Zs). That is what ``str.isprintable`` refuses.
Beside them the letters, marks and symbols that have no shape: fillers, variation selectors, the grapheme joiner, the Braille blank.
Letters of every script stay, those that are written from right to left too; an emoji made with a joiner falls into its parts.

The escapes are those of JSON: inside a JSON document a reader gets the same value.
"""

from __future__ import annotations

import re
from typing import Final

_SUSPECT: Final = re.compile(r"[^\x20-\x7e\n\t]")
_SHAPELESS: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Of Default_Ignorable_Code_Point what ``isprintable`` lets pass, and the Braille blank."""
_LITERAL: Final = re.compile(r"\\(?=u[0-9a-fA-F]{4})")
_UNSEEN_SPACE: Final = re.compile(r"^ | $|(?<= ) ")
_SPACE: Final = " \t\r\n"
_SPACES: Final = re.compile(f"[{_SPACE}]+")


def escaped(text: str) -> str:
    """``text`` with everything unseen escaped; line feeds and tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable() and (text.isascii() or not _SHAPELESS.search(text)):
        return text  # nearly every text, ten times as quickly
    return _SUSPECT.sub(_escape, text)


def name(text: str) -> str:
    """A name on one line. Two names that differ look different: a backslash that would read as an escape is doubled."""
    return _UNSEEN_SPACE.sub(r"\\u0020", line(_LITERAL.sub(r"\\\\", text)))


def line(text: str) -> str:
    """``text`` on one line, nothing left out."""
    return escaped(text).replace("\n", r"\u000a").replace("\t", r"\u0009")


def sentence(text: str) -> str:
    """``text`` on one line, its lines and runs of spaces joined by one space."""
    return escaped(_SPACES.sub(" ", text.strip(_SPACE)))


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character.isprintable() and not _SHAPELESS.match(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
