"""Lines of text within the limit of a receiver."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from switchgear_alerts import texts
from switchgear_alerts.messages import Message
from switchgear_alerts.receivers.base import to_json

LONGEST_LINE: Final = 1500
"""Characters. Only lines with the longest names, all escaped, have more."""
_MORE: Final = re.compile(r"… and (\d+) more")


def paragraphs(message: Message, longest: int, size: Callable[[str], int] = len) -> list[str]:
    """Return the body of a message that fits, as :func:`fitted` does it. What a digest says last, what is open now, is not left out."""
    lines = texts.paragraphs(message)
    open_now = [cut(lines.pop(), min(longest, LONGEST_LINE))] if message.digest is not None else []
    return fitted(lines, longest, size) + open_now


def fitted(lines: Sequence[str], longest: int, size: Callable[[str], int] = len) -> list[str]:
    """Return the lines that fit. Whole ones are left out at the end, and a line says how many.

    Args:
        lines: Lines. If the last one is such as ``… and 230 more``, its number counts too.
        longest: The most of all lines, with one for the end of each, in the unit of ``size``.
        size: The size of one line: characters, or :func:`json_bytes`.
    """
    kept, left_out = [cut(each, LONGEST_LINE) for each in lines], 0
    if kept and (found := _MORE.fullmatch(kept[-1])):
        kept.pop()
        left_out = int(found[1])
    used = sum(size(each) + 1 for each in kept)
    while True:
        more = [f"… and {left_out} more"] if left_out else []
        if not kept or used + sum(size(each) + 1 for each in more) <= longest:
            return kept + more
        used -= size(kept.pop()) + 1
        left_out += 1


def cut(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def json_bytes(line: str) -> int:
    """Return the bytes of a line in a JSON document."""
    return len(to_json(line))
