"""StrictConnection: h11 without the framings that two servers may read differently (request smuggling, RFC 9112 section 11.2).

h11 refuses most of them itself. It accepts what the RFC lets a server accept: both lengths at once, lines that end in a bare line feed,
and header lines that are folded.
"""

from __future__ import annotations

import re
from typing import Any, Final

import h11

_HEAD_END: Final = re.compile(rb"\n\r?\n")
_BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
"""A line feed or a carriage return without the other; the last byte may be the first of a pair."""
_FOLDED: Final = re.compile(rb"\r\n[ \t]")


class StrictConnection(h11.Connection):
    """A server's side of one connection."""

    def next_event(self) -> Any:
        """The next event, as h11 has it.

        Raises:
            h11.RemoteProtocolError: the request's framing is ambiguous.
        """
        if self.their_state is h11.IDLE:
            _check_lines(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check_lengths(event)
        return event


def _check_lines(received: bytes) -> None:
    end = _HEAD_END.search(received)
    head = received if end is None else received[: end.end()]
    if _BARE.search(head):
        raise h11.RemoteProtocolError("A line of the header does not end in CR LF")
    if _FOLDED.search(head):
        raise h11.RemoteProtocolError("A header line is folded")


def _check_lengths(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding are both given")
    if request.http_version != b"1.1":
        raise h11.RemoteProtocolError("Transfer-Encoding is HTTP/1.1's")
