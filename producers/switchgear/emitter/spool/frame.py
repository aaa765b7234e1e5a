"""Frames: how a record lies in a segment file, so that what was cut or damaged is found out and skipped alone.

``magic (4) | crc32 of the body (4) | length of the body (4) | body``, little-endian; the body is ``perhaps sent (1) | length of
the tool's name (2) | tool | value``. The magic begins with 0xFF, a byte that no UTF-8 text holds: after damage the next
frame is found by it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

MAGIC: Final = b"\xffSWG"
_HEADER: Final = struct.Struct("<4sII")
_START: Final = struct.Struct("<BH")
OVERHEAD: Final = _HEADER.size + _START.size
"""Bytes a record takes beyond its tool's name and its value."""
LONGEST_NAME: Final = 65_535
"""Bytes of a tool's name: its length has two."""
LARGEST: Final = 8 * 1_048_576
"""A frame that claims more is damaged: Kafka is given records of 4 MiB at most."""


class Entry(NamedTuple):
    """A record read back. ``end``: where its frame ends, in bytes from where the parsed data begin."""

    tool: str
    value: bytes
    sent: bool
    end: int


class Parsed(NamedTuple):
    """``consumed``: bytes that need not be read again. ``damaged``: stretches that were no frames."""

    entries: list[Entry]
    consumed: int
    damaged: int


def frame(tool: bytes, value: bytes, *, sent: bool) -> bytes:
    """One record as bytes. ``sent``: Kafka may have it already."""
    body = b"".join((_START.pack(sent, len(tool)), tool, value))
    return _HEADER.pack(MAGIC, zlib.crc32(body), len(body)) + body


def parse(data: bytes, *, most: int, last: bool) -> Parsed:
    """Up to ``most`` records from the beginning of ``data``, in order.

    Args:
        data: Bytes from a frame's beginning on.
        most: Records wanted.
        last: The file ends with ``data``: a frame that is cut there is lost, instead of going on in the next bytes.
    """
    entries: list[Entry] = []
    at = damaged = 0
    while len(entries) < most and at < len(data):
        end, entry = _one(data, at)
        if entry is not None:
            entries.append(entry)
            at = end
            continue
        if end > len(data) and not last and end - at <= LARGEST:
            break  # it goes on in bytes that were not read yet
        # A length may be what is damaged, so the next frame is looked for from the next byte on.
        found = data.find(MAGIC, at + 1)
        damaged += 1
        if found < 0:
            at = len(data) if last else max(at + 1, len(data) - len(MAGIC) + 1)
            break
        at = found
    return Parsed(entries, at, damaged)


def _one(data: bytes, at: int) -> tuple[int, Entry | None]:
    """The frame at ``at``, or None; and where it ends, or would end."""
    if at + OVERHEAD > len(data):
        return (at + LARGEST if MAGIC.startswith(data[at : at + 4]) else at), None
    magic, crc, length = _HEADER.unpack_from(data, at)
    body = at + _HEADER.size
    end = body + length
    if magic != MAGIC or length < _START.size or end > len(data) or zlib.crc32(memoryview(data)[body:end]) != crc:
        return (end if magic == MAGIC else at), None
    sent, width = _START.unpack_from(data, body)
    start = body + _START.size
    value = start + width
    return end, Entry(data[start:value].decode(errors="replace"), data[value:end], bool(sent), end)
