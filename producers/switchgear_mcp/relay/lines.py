"""Lines put together from pieces of any size, in linear time and with a bound."""

from __future__ import annotations

from switchgear_mcp.message_size import TooLarge

_KEPT = 4_096


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
