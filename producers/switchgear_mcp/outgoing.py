"""Requests over HTTP to a server at an address, in both of MCP's transports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import httpx2

from switchgear.classify.waits import from_headers
from switchgear.runtime.tasks import Tasks
from switchgear_mcp.channel import NO_HEADERS, Receiver
from switchgear_mcp.errors import ServerStatusError
from switchgear_mcp.events import Event, Events
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.protocol import EVENT_STREAM
from switchgear_mcp.servers import UrlServer

FIRST_ERROR: Final = 300
_CONNECT_S: Final = 30.0
_LOGIN: Final = frozenset({401, 403})
_OWN_HEADERS: Final = {
    "accept": f"application/json, {EVENT_STREAM}",
    "accept-encoding": "identity",  # a compressed answer can be a thousand times its size
    "content-type": "application/json",
}


class TooLargeError(Exception):
    """A message has more bytes than the bound."""


class Outgoing:
    """What the two transports over HTTP share.

    Args:
        server: The server.
        receiver: Gets its messages.
        most: The most bytes of one of its messages.
        hidden: The secrets of its entry.
        transport: For tests.
    """

    def __init__(
        self,
        server: UrlServer,
        receiver: Receiver,
        most: int,
        hidden: Hidden,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._server, self._receiver, self._most, self._hidden = server, receiver, most, hidden
        self._http = client_of(server, transport)
        self._headers = NO_HEADERS
        """Of the client's last request."""
        self._tasks = Tasks()

    async def described(self, error: BaseException | None) -> str:
        """Return why the address can't be used, for a sentence that begins with the server."""
        where = self._server.shown_url
        if isinstance(error, TimeoutError | httpx2.TimeoutException):
            return f"did not answer at {where}"
        if isinstance(error, ServerStatusError):
            return f"answered with HTTP {shown_status(error.status_code)}"
        return f"can't be reached at {where}" + (f": {error}" if str(error or "") else "")


def client_of(server: UrlServer, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """Return a client that sends the server's headers."""
    timeout = httpx2.Timeout(_CONNECT_S, read=None, pool=None)  # each request has its own limit
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    headers = {**_OWN_HEADERS, **server.headers}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits, transport=transport)


async def events_of(response: httpx2.Response, most: int) -> AsyncIterator[Event]:
    """Yield the events of a stream.

    Raises:
        TooLargeError: One has more than so many bytes.
    """
    events = Events(most)
    async for piece in response.aiter_raw():
        for event in events.add(piece):
            if event is None:
                raise TooLargeError
            yield event


def refused(server: UrlServer, response: httpx2.Response) -> ServerStatusError:
    """Return the error for an answer with a status that is one."""
    status = response.status_code
    challenge = response.headers.get("www-authenticate") if status in _LOGIN else None
    text = f"The server {server.name} answered with HTTP {shown_status(status)}."
    if challenge is not None:
        text += " It wants a login: give it a token in a header, or serve clients over HTTP (--http), which log in themselves."
    return ServerStatusError(text, status, from_headers(response.headers), challenge)


def shown_status(status_code: int) -> str:
    """Return a status of HTTP with its name."""
    with suppress(ValueError):
        return f"{status_code} {HTTPStatus(status_code).phrase}"
    return str(status_code)


def same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Return whether two addresses are of one server."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
