"""What a message of a server costs, before it is parsed: a message that costs too much is not parsed.

The budget is memory, because bytes say little: ``[[],[],…`` takes thirty times its size once it is parsed. Text costs its bytes, an escape
in it one more, and each value a fixed amount on top. The count takes linear time and sees a message in pieces, so no message holds the event loop.
"""

from __future__ import annotations

import re
from typing import Final

MIB: Final = 1_048_576
DEFAULT_MIB: Final = 8
MARK: Final = "is larger than the proxy reads"
"""In each error about a message that costs too much."""
_VALUE_BYTES: Final = 128
"""What one value takes beside its text, in memory and in time: as many as fit hold the event loop as long as a text that fits."""
_KEPT: Final = 4_096
_ID: Final = rb'"id"\s*:\s*(?P<id>[0-9]{1,18}|"[^"\\]{1,200}")\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb"[,}]")
_LAST: Final = re.compile(rb"[,{]\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_ASKS: Final = re.compile(
    rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?(?:" + _ID.replace(b"?P<id>", b"?:") + rb",\s*)?\"method\""
)
"""The beginning of a request or a notification, which answers nothing."""
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")


class Cost:
    """The cost of one message, which comes in pieces.

    Args:
        most: The most bytes of memory.
    """

    __slots__ = ("_in_text", "_most", "_skips", "_spent")

    def __init__(self, most: int) -> None:
        self._most, self._spent = most, 0
        self._in_text = False
        self._skips = False
        """The next byte is escaped by the last one of the piece before."""

    def add(self, piece: bytes) -> bool:
        """Count a piece. Return whether the message is still within its budget."""
        self._spent += len(piece) + piece.count(b"\\") + _VALUE_BYTES * self._values(piece)
        return self._spent <= self._most

    def _values(self, piece: bytes) -> int:
        """Return how many values begin in a piece: outside of texts, each has a comma, a colon or a bracket before it."""
        if self._skips and piece:
            piece, self._skips = piece[1:], False
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"")
            if piece.endswith(b"\\"):
                piece, self._skips = piece[:-1], True
            piece = piece.replace(rb"\"", b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        self._in_text ^= len(parts) % 2 == 0
        return sum(map(outside.count, (b",", b":", b"[", b"{")))


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
    """Puts lines together from pieces of any size, in linear time.

    Args:
        most: The most that one line may cost.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[bytes] = []
        self._cost = Cost(self._most)
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
            elif self._pieces:
                found.append(b"".join(self._pieces))
            if self._pieces or self._first is not None:
                self._begin()
        self._take(rest)
        return found

    def _take(self, piece: bytes) -> None:
        if not piece:
            return
        if self._first is not None:
            self._last = (self._last + piece[-_KEPT:])[-_KEPT:]
            return
        self._pieces.append(piece)
        if not self._cost.add(piece):
            self._first = b"".join(self._pieces[:8])[:_KEPT]
            self._last = b"".join(self._pieces[-8:])[-_KEPT:]
            self._pieces.clear()


class Body:
    """The cost of an answer over HTTP.

    Args:
        most: The most that one message may cost.
        events: Whether it is a stream of events, each with a message of its own.
    """

    def __init__(self, most: int, *, events: bool) -> None:
        self._most, self._events = most, events
        self._cost = Cost(most)
        self._held = b""
        """Line ends at the end of the last piece, which may be the first half of an event's end."""

    def add(self, piece: bytes) -> bool:
        """Count a piece. Return whether all messages in it are within their budgets."""
        if not self._events:
            return self._cost.add(piece)
        piece = self._held + piece
        body = piece.rstrip(b"\r\n")
        self._held = piece[len(body) :][:4]
        *ends, rest = _EVENT_END.split(body)
        for end in ends:
            if end and not self._cost.add(end):
                return False
            self._cost = Cost(self._most)
        return self._cost.add(rest)


def sentence(server: str, most: int) -> str:
    """Return the error about a message of a server that costs too much."""
    return (
        f"An answer of the server {server} {MARK} ({most / MIB:g} MiB), so it was left out. Ask for less at a time, such as a page or a "
        "part. The proxy's option --max-result reads more."
    )
