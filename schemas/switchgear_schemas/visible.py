r"""Untrusted text made safe to show: control characters and invisible characters are written as ``\uXXXX``.

Escaped by Unicode category: controls (Cc), surrogates (Cs), private use (Co), unassigned characters (Cn), and every separator except the
space (Zl, Zp, Zs). Format characters (Cf) are escaped too, such as bidirectional marks, zero-width joiners and tags. ``str.isprintable``
refuses the same ones. Also escaped are letters, marks and symbols without a shape: fillers, variation selectors, the grapheme joiner, the Braille blank.
Letters of every script stay, also of scripts written from right to left. An emoji made with a joiner falls into its parts.

The escapes are JSON's, so inside a JSON document a reader gets the same value.
"""

from __future__ import annotations

import re
from typing import Final

_SUSPECT: Final = re.compile(r"[^\x20-\x7e\n\t]")
_SHAPELESS: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""The characters of Default_Ignorable_Code_Point that ``isprintable`` accepts, and the Braille blank."""
_LITERAL: Final = re.compile(r"\\(?=u[0-9a-fA-F]{4})")
_UNSEEN_SPACE: Final = re.compile(r"^ | $|(?<= ) ")
_SPACE: Final = " \t\r\n"
_SPACES: Final = re.compile(f"[{_SPACE}]+")


def escaped(text: str) -> str:
    """Return ``text`` with invisible characters escaped. Line feeds and tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable() and (text.isascii() or not _SHAPELESS.search(text)):
        return text  # the fast path of nearly every text
    return _SUSPECT.sub(_escape, text)


def name(text: str) -> str:
    """Return a name on one line. Different names look different: a backslash that would read as an escape is doubled."""
    return _UNSEEN_SPACE.sub(r"\\u0020", line(_LITERAL.sub(r"\\\\", text)))


def line(text: str) -> str:
    """Return the whole ``text`` on one line."""
    return escaped(text).replace("\n", r"\u000a").replace("\t", r"\u0009")


def sentence(text: str) -> str:
    """Return ``text`` on one line, with lines and runs of spaces joined by one space."""
    return escaped(_SPACES.sub(" ", text.strip(_SPACE)))


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character.isprintable() and not _SHAPELESS.match(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
