"""BoundedProtocol: uvicorn's h11 protocol, with bounds on connections and on the time that a client may take.

uvicorn bounds the time between two requests and the size of a header, and nothing else: a header or a body that never ends holds its
connection, and so does a client that does not read its answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from switchgear_sinks.framing import StrictConnection

MAX_HEADER_BYTES: Final = 16_384


@dataclass(slots=True)
class Crowd:
    """All connections of one server, and their bounds.

    Args:
        most: Connections. One more ends the one that has waited longest for its client, which has still to send a request or to read an
            answer. Where every one has a request that is worked on there may be twice as many, for a moment.
        request_s: From the connection, or the end of the last answer, to the end of the request's body, in seconds.
        answer_s: Longest time that a client may leave what is sent to it unread, in seconds.
    """

    most: int = 256
    request_s: float = 15.0
    answer_s: float = 30.0
    connections: dict[BoundedProtocol, None] = field(default_factory=dict)
    """In the order in which their waits began."""

    def protocol(self, **config: Any) -> BoundedProtocol:
        """What uvicorn makes for each connection."""
        return BoundedProtocol(self, **config)

    def make_room(self) -> bool:
        """End the connection that has waited longest, if there are too many; False where there is no room all the same."""
        while len(self.connections) >= self.most:
            oldest = next((each for each in self.connections if each.waits), None)
            if oldest is None:
                return len(self.connections) < 2 * self.most
            oldest.end()
        return True


class BoundedProtocol(H11Protocol):
    """One connection.

    Args:
        crowd: Its bounds, and the connections beside it.
        config: As uvicorn gives them.
    """

    def __init__(self, crowd: Crowd, **config: Any) -> None:
        super().__init__(**config)
        self._crowd = crowd
        self.conn = StrictConnection(h11.SERVER, MAX_HEADER_BYTES)
        self._request_limit: asyncio.TimerHandle | None = None
        self._answer_limit: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: to send a request, or the rest of one, or to read the answer."""
        return self._unfinished or self.cycle is None or self.cycle.response_complete

    @property
    def _unfinished(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def end(self) -> None:
        """Close at once, whatever is still to be read or written."""
        self._crowd.connections.pop(self, None)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Enter the crowd, if there is room."""
        super().connection_made(transport)
        if not self._crowd.make_room():
            self.end()
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave it."""
        self._crowd.connections.pop(self, None)
        for limit in (self._request_limit, self._answer_limit):
            if limit is not None:
                limit.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some of a request; its time runs out unless this was the last of it."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """From now on the next request is waited for, and the answer has to be read."""
        self._unread()
        super().on_response_complete()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Refuse the request, unless it has its answer already, and close."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # what works on the request can't answer it a second time
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.end()
        else:
            self._unread()

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        self._unread()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._read()
        super().resume_writing()

    def _look(self) -> None:
        """See whether the client has still something to send, and start or stop its time."""
        if self.transport.is_closing():
            return
        if not self._unfinished:
            if self._request_limit is not None:
                self._request_limit.cancel()
                self._request_limit = None
            if not self.flow.write_paused:
                self._read()
        elif self._request_limit is None:
            self._crowd.connections.pop(self, None)
            self._crowd.connections[self] = None
            self._request_limit = self.loop.call_later(self._crowd.request_s, self.end)

    def _unread(self) -> None:
        self._read()
        if self.transport.get_write_buffer_size():
            self._answer_limit = self.loop.call_later(self._crowd.answer_s, self._check_read)

    def _read(self) -> None:
        if self._answer_limit is not None:
            self._answer_limit.cancel()
            self._answer_limit = None

    def _check_read(self) -> None:
        if self.transport.get_write_buffer_size():
            self.end()
