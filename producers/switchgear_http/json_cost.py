"""What the values of a JSON text cost, before they are built. Three bytes can make 70: ``{},``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

OBJECT: Final = 130
ARRAY: Final = 56
ITEM: Final = 40
QUOTE: Final = 12
"""Bytes of memory, as CPython and msgspec take them: for each ``{``, ``[``, ``,`` and ``"`` outside of texts."""
FACTOR: Final = 10
"""Values may take so many times the size of their text."""
ALWAYS: Final = 4 * 1_048_576
"""So many bytes are allowed for any text."""
MOST: Final = 12 * 1_048_576
"""More than the text itself takes. Building so much takes about 40 ms, in which the process does nothing else."""
_CHUNK: Final = 262_144


def is_dear(text: bytes) -> bool:
    """Return whether the values of a JSON text would take too much memory or time."""
    most = len(text) + min(max(FACTOR * len(text), ALWAYS), MOST)
    return _cost(text, text.count) > most and cost_of(text) > most


def cost_of(text: bytes) -> int:
    """Return about how many bytes of memory the values of a JSON text take. What stands in texts doesn't count as values."""
    outside = list(_outside(text))
    return _cost(text, lambda character: sum(each.count(character) for each in outside))


def commas_in(text: bytes) -> int:
    """Return how many commas stand outside of texts."""
    return sum(each.count(b",") for each in _outside(text))


def _cost(text: bytes, count: Callable[[bytes], int]) -> int:
    of_values = OBJECT * count(b"{") + ARRAY * count(b"[") + ITEM * count(b",")
    return len(text) + of_values + QUOTE * text.count(b'"')


def _outside(text: bytes) -> Iterator[bytes]:
    """Yield what stands outside of texts.

    Without escaped quotes, every other part between quotes is outside. A text is split in chunks, because the parts of a whole body
    would take much more memory than the body.
    """
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = True
    for at in range(0, len(plain), _CHUNK):
        parts = plain[at : at + _CHUNK].split(b'"')
        yield b"".join(parts[0 if outside else 1 :: 2])
        outside ^= len(parts) % 2 == 0
