"""uvicorn's h11 protocol, with limits on connections, on a client's time and on ambiguous requests.

uvicorn limits the time between two requests and the size of a header, and nothing else. A header or a body that never ends holds
its connection, and so does a client that doesn't read its answer.

h11 refuses most requests that two servers may read differently (request smuggling, RFC 9112 section 11.2). It accepts what the RFC
lets a server accept: both lengths at once, lines that end in a bare line feed, and folded header lines. These are refused here.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from switchgear_http.limits import network_of

MAX_HEADER_BYTES: Final = 16_384
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
"""A line feed or a carriage return without the other. The last byte may be the first of a pair."""
_FOLDED: Final = re.compile(rb"\r\n[ \t]")


@dataclass(slots=True)
class Connections:
    """All connections of one server, and their limits.

    Args:
        max_open: Connections. One more closes the connection that has waited longest for its client, of the addresses with the most
            connections first. If every connection has a request in progress, there may be twice as many for a moment.
        request_s: Seconds from the connection, or the end of the last answer, to the end of the request's body.
        answer_s: Seconds that a client may leave an answer unread.
    """

    max_open: int = 256
    request_s: float = 15.0
    answer_s: float = 30.0
    by_wait: dict[LimitedProtocol, None] = field(default_factory=dict)
    """In the order in which their waits began."""
    by_address: Counter[str] = field(default_factory=Counter)
    """How many each address has. Behind a proxy, all are the proxy's."""

    def protocol(self, **config: Any) -> LimitedProtocol:
        """Return the protocol of one connection, as uvicorn asks for it."""
        return LimitedProtocol(self, **config)

    def make_room(self) -> bool:
        """Close the connection that has waited longest if there are too many. Return False if there is still no room."""
        while len(self.by_wait) >= self.max_open:
            most = max(self.by_address.values(), default=0)
            waiting = [each for each in self.by_wait if each.waits]
            oldest = next((each for each in waiting if self.by_address[each.address] == most), None)
            oldest = oldest or next(iter(waiting), None)
            if oldest is None:
                return len(self.by_wait) < 2 * self.max_open
            oldest.end()
        return True

    def leave(self, connection: LimitedProtocol) -> None:
        """Forget a connection that has ended."""
        if connection in self.by_wait:
            del self.by_wait[connection]
            self.by_address[connection.address] -= 1
            if not self.by_address[connection.address]:
                del self.by_address[connection.address]


class StrictConnection(h11.Connection):
    """The server's side of one connection, which refuses ambiguous requests."""

    def next_event(self) -> Any:
        """Return the next event, as h11 does.

        Raises:
            h11.RemoteProtocolError: The request's framing is ambiguous.
        """
        if self.their_state is h11.IDLE:
            _check_lines(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check_lengths(event)
        return event


class LimitedProtocol(H11Protocol):
    """One connection.

    Args:
        connections: The server's other connections, and the limits.
        config: As uvicorn gives it.
    """

    def __init__(self, connections: Connections, **config: Any) -> None:
        super().__init__(**config)
        self._connections = connections
        self.address = ""
        self.conn = StrictConnection(h11.SERVER, MAX_HEADER_BYTES)
        self._request_limit: asyncio.TimerHandle | None = None
        self._answer_limit: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """It is the client's turn: to send a request or the rest of one, or to read the answer."""
        return self._unfinished or self.cycle is None or self.cycle.response_complete

    @property
    def _unfinished(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def end(self) -> None:
        """Close at once, whatever is still to be read or written."""
        self._connections.leave(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Join the other connections, if there is room."""
        super().connection_made(transport)
        if not self._connections.make_room():
            self.end()
            return
        self.address = network_of(str((transport.get_extra_info("peername") or ("",))[0]))
        self._connections.by_wait[self] = None
        self._connections.by_address[self.address] += 1
        self._update_request_limit()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the other connections and stop the timers."""
        self._connections.leave(self)
        for limit in (self._request_limit, self._answer_limit):
            if limit is not None:
                limit.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some of a request. Its time keeps running unless the request is complete."""
        super().data_received(data)
        self._update_request_limit()

    def on_response_complete(self) -> None:
        """Start to wait for the next request, and for the client to read the answer."""
        self._start_answer_limit()
        super().on_response_complete()
        self._update_request_limit()

    def send_400_response(self, msg: str) -> None:
        """Refuse the request, unless it was answered already, and close."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application must not answer it a second time
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.end()
        else:
            self._start_answer_limit()

    def pause_writing(self) -> None:
        """Start the client's time to read: it reads more slowly than the answer is written."""
        super().pause_writing()
        self._start_answer_limit()

    def resume_writing(self) -> None:
        """Stop the client's time to read: it has caught up."""
        self._stop_answer_limit()
        super().resume_writing()

    def _update_request_limit(self) -> None:
        """Start the client's time to send while it has something to send, or stop it."""
        if self.transport.is_closing():
            return
        if not self._unfinished:
            if self._request_limit is not None:
                self._request_limit.cancel()
                self._request_limit = None
            if not self.flow.write_paused:
                self._stop_answer_limit()
        elif self._request_limit is None:
            if self in self._connections.by_wait:  # it waits anew: last in the order
                del self._connections.by_wait[self]
                self._connections.by_wait[self] = None
            self._request_limit = self.loop.call_later(self._connections.request_s, self.end)

    def _start_answer_limit(self) -> None:
        self._stop_answer_limit()
        if self.transport.get_write_buffer_size():
            self._answer_limit = self.loop.call_later(self._connections.answer_s, self._end_if_unread)

    def _stop_answer_limit(self) -> None:
        if self._answer_limit is not None:
            self._answer_limit.cancel()
            self._answer_limit = None

    def _end_if_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.end()


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
        raise h11.RemoteProtocolError("Transfer-Encoding needs HTTP/1.1")
