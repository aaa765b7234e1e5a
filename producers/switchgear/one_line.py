"""A stranger's text for a model to read: on one line, printable, and bounded."""

from __future__ import annotations

from typing import Final

MOST_NAME: Final = 80
"""Characters of a tool's name."""


def one_line(text: str, most: int) -> str:
    """``text`` without line breaks and control characters, at most ``most`` characters long; an ellipsis marks a cut."""
    text = text[: 4 * most]
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"
