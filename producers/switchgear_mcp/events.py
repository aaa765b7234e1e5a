"""Server-sent events, in pieces of any size and in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its data, its id, how long to wait before the stream is taken up again, and its type."""

    data: bytes
    number: str = ""
    retry_ms: int | None = None
    kind: str = "message"


class Events:
    """The events of a stream.

    Args:
        most: The most bytes of one event.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest: list[bytes] = []
        self._size = 0
        self._lines: list[bytes] = []
        self._held = False
        """The last piece ended with a carriage return, which may be half a line end."""

    def add(self, piece: bytes) -> list[Event | None]:
        """Return the events that end in this piece. None stands for one that is too large, and for the end of reading."""
        if self._held and piece[:1] == b"\n":
            piece = piece[1:]
        if not piece:
            return []
        self._held = piece.endswith(b"\r")
        found: list[Event | None] = []
        *ends, rest = _LINE.split(piece)
        for end in ends:
            self._rest.append(end)
            line = self._rest[0] if len(self._rest) == 1 else b"".join(self._rest)
            self._rest = []
            if line:
                self._size += len(end)
                self._lines.append(line)
                continue
            event = _event(self._lines)
            self._lines, self._size = [], 0
            if event is not None:
                found.append(event)
        if rest:
            self._rest.append(rest)
            self._size += len(rest)
        if self._size > self._most:
            found.append(None)
        return found


def _event(lines: list[bytes]) -> Event | None:
    data: list[bytes] = []
    number, retry, kind = "", None, "message"
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"id":
            number = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            retry = int(value)
        elif name == b"event":
            kind = value.decode("utf-8", "replace")
    if not data and not number and retry is None:
        return None
    return Event(data[0] if len(data) == 1 else b"\n".join(data), number, retry, kind)
