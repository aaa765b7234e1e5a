"""A server at an address with the former transport of MCP, HTTP with SSE: a stream for its messages, and POSTs for ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import httpx2

from switchgear_mcp import forwarding
from switchgear_mcp.address import Address
from switchgear_mcp.channel import Channel, Receiver, larger
from switchgear_mcp.errors import ServerDownError, ServerStatusError
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.message import Id, Message, parsed
from switchgear_mcp.outgoing import (
    FIRST_ERROR,
    Outgoing,
    TooLargeError,
    events_of,
    refused,
    same_origin,
)
from switchgear_mcp.protocol import EVENT_STREAM
from switchgear_mcp.servers import UrlServer

_NO_STREAMABLE_HTTP: Final = frozenset({400, 404, 405})
"""What a server of the former transport answers to a POST at its address."""


class Sse(Outgoing):
    """A server at an address. See :class:`~switchgear_mcp.channel.Channel`."""

    _target: httpx2.URL | None = None
    """Where messages are posted. None: the server hasn't said it yet."""

    async def run(self, opened: Callable[[], None]) -> None:
        """Read the stream until it ends."""
        try:
            headers = {"accept": EVENT_STREAM, **forwarding.added(self._headers, self._server.headers)}
            async with self._http.stream("GET", self._server.url, headers=headers, follow_redirects=False) as response:
                if response.status_code >= FIRST_ERROR:
                    raise refused(self._server, response)
                async for event in events_of(response, self._most):
                    if event.kind == "endpoint" and self._target is None:
                        self._target = response.url.join(event.data.decode())
                        if not same_origin(response.url, self._target):
                            raise ConnectionError("it wants messages at another host")
                        opened()
                    elif event.kind == "message":
                        await self._take(event.data)
            raise ConnectionResetError("its stream ended")
        except TooLargeError:
            raise ConnectionError(larger(self._server.name, self._most)) from None
        finally:
            self._target = None
            self._tasks.cancel()
            await self._http.aclose()

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Post a message. A request is posted in the background."""
        if self._target is None:
            raise ConnectionResetError
        self._headers = forwarding.forwarded(headers.items(), self._server.forward_headers)
        posting = self._tasks.start(self._post(message, self._target))
        if not message.is_request:
            await asyncio.wait({posting})

    async def cancel(self, number: Id, notification: Message) -> None:  # noqa: ARG002 - it is in the notification
        """Send the notification."""
        await self.send(notification, self._headers)

    async def _take(self, data: bytes) -> None:
        try:
            found = parsed(data)
        except ValueError as error:
            self._receiver.skip(str(error))
            return
        for message in found:
            await self._receiver.receive(message)

    async def _post(self, message: Message, target: httpx2.URL) -> None:
        headers = forwarding.added(self._headers, self._server.headers)
        error: Exception | None = None
        try:
            async with self._http.stream("POST", target, content=message.line, headers=headers) as response:
                if response.status_code >= FIRST_ERROR:
                    error = refused(self._server, response)
        except httpx2.HTTPError as failed:
            text = self._hidden.hide(str(failed))
            error = ServerDownError(f"The server {self._server.name} took no message{f': {text}' if text else ''}.")
        if error is not None and message.is_request:
            await self._receiver.fail(message.id, error)


class Either:
    """A server at an address whose transport isn't known: streamable HTTP, and if it doesn't have that, the former one.

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
        self._receiver = receiver
        self._channel: Channel = Address(server, self, most, hidden, transport)
        self._former: Callable[[], Sse] = lambda: Sse(server, receiver, most, hidden, transport)
        self._hello: tuple[Message, Mapping[str, str]] | None = None
        self._refused: asyncio.Future[Any] | None = None
        self._sending: asyncio.Future[Any] | None = None

    async def run(self, opened: Callable[[], None]) -> None:
        """Serve with the transport that the server has."""
        self._refused = asyncio.get_running_loop().create_future()
        first: asyncio.Future[Any] = asyncio.ensure_future(self._channel.run(opened))
        try:
            await asyncio.wait({first, self._refused}, return_when=asyncio.FIRST_COMPLETED)
            if not self._refused.done():
                await first
                return
        finally:
            first.cancel()
            await asyncio.wait({first})
        assert self._hello is not None
        hello, headers = self._hello
        former = self._channel = self._former()
        try:
            await former.run(lambda: self._again(hello, headers))
        except (ServerStatusError, httpx2.HTTPError):  # it has neither of them: the first error says more
            await self._receiver.fail(hello.id, self._refused.result())
            raise

    def _again(self, hello: Message, headers: Mapping[str, str]) -> None:
        self._sending = asyncio.ensure_future(self._channel.send(hello, headers))

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message."""
        if message.method == "initialize":
            self._hello = message, headers
        await self._channel.send(message, headers)

    async def cancel(self, number: Id, notification: Message) -> None:
        """Tell the server that a request is cancelled."""
        await self._channel.cancel(number, notification)

    async def described(self, error: BaseException | None) -> str:
        """Return why the address can't be used."""
        return await self._channel.described(error)

    # -- what streamable HTTP reads -----------------------------------------------------------------------------------

    async def receive(self, message: Message, related: Id = None) -> None:
        """Pass a message on."""
        await self._receiver.receive(message, related)

    async def fail(self, number: Id, error: Exception) -> None:
        """Pass the failure of a request on, or try the handshake with the other transport."""
        hello = self._hello
        if (
            hello is not None
            and hello[0].id == number
            and isinstance(error, ServerStatusError)
            and error.status_code in _NO_STREAMABLE_HTTP
            and self._refused is not None
            and not self._refused.done()
        ):
            self._refused.set_result(error)
            return
        with suppress(ConnectionError):
            await self._receiver.fail(number, error)

    def skip(self, why: str) -> None:
        """Note something that is not a message."""
        self._receiver.skip(why)
