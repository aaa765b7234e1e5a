"""Lines put together from pieces of any size, in linear time and with a bound."""

from __future__ import annotations

import re
from typing import Final

_KEPT: Final = 4_096
_ID: Final = rb'"id"\s*:\s*(?P<id>[0-9]{1,18}|"[^"\\]{1,200}")\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb"[,}]")
_LAST: Final = re.compile(rb"[,{]\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_ASKS: Final = re.compile(
    rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?(?:" + _ID.replace(b"?P<id>", b"?:") + rb",\s*)?\"method\""
)
"""The beginning of a request or a notification, which answers nothing."""


class TooLarge:
    """A message that was left out. Its beginning and its end were kept, to find out which request it answers.

    Args:
        first: The beginning.
        last: The end.
    """

    def __init__(self, first: bytes, last: bytes) -> None:
        self.asks = _ASKS.match(first) is not None
        """Whether it is a request or a notification."""
        found = None if self.asks else _FIRST.match(first) or _LAST.search(last)
        given = None if found is None else found["id"].decode(errors="replace")
        self.request: int | str | None = None
        """The id of the request that it answers. None if it isn't known."""
        if given is not None:
            self.request = given[1:-1] if given.startswith('"') else int(given)


class Lines:
    """The lines of a stream. Of one that is longer than the bound, only the beginning and the end are kept.

    Args:
        most: The most bytes of one line.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._first: bytes | None = None
        self._last = b""

    def add(self, piece: bytes) -> list[bytes | TooLarge]:
        """Return the lines that end in this piece, without those that are empty."""
        found: list[bytes | TooLarge] = []
        *ends, rest = piece.split(b"\n")
        for end in ends:
            self._take(end)
            if self._first is not None:
                found.append(TooLarge(self._first, self._last))
            elif line := (self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)).strip():
                found.append(line)
            self._begin()
        self._take(rest)
        return found

    def _take(self, piece: bytes) -> None:
        if self._first is not None:
            self._last = (self._last + piece[-_KEPT:])[-_KEPT:]
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._most:
            self._first = b"".join(self._pieces[:8])[:_KEPT]
            self._last = b"".join(self._pieces[-8:])[-_KEPT:]
            self._pieces.clear()
