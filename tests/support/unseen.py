"""Text with control characters and invisible characters, and a check for them."""

from __future__ import annotations

import unicodedata
from typing import Final

HOSTILE: Final = "a\u202eb\u200bc\u009b31md\u2066e\U000e0041f\u3164g\x1b[2Jh\u2028i\ufeffj\x7fk\u00adl\u2060m\x08n\u00a0o\u2800p\ufe0fq\u061cr\re"
"""At least one character of each class: controls of both sets, bidirectional marks, zero-width characters, a tag, fillers, separators."""
SHAPELESS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def unseen(text: str) -> set[str]:
    """Return the characters of ``text``, except line feeds, that are invisible or that a terminal obeys."""
    return {
        each
        for each in text
        if each != "\n"
        and (
            unicodedata.category(each) in _REFUSED
            or (unicodedata.category(each) == "Zs" and each != " ")
            or each in SHAPELESS
            or "\ufe00" <= each <= "\ufe0f"
            or "\U000e0100" <= each <= "\U000e01ef"
        )
    }
