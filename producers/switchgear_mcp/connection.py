"""One connection to a server, with the requests that wait for an answer in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from switchgear.runtime.tasks import Tasks
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_mcp import message as rpc
from switchgear_mcp.channel import NO_HEADERS, Channel
from switchgear_mcp.errors import ServerSilentError
from switchgear_mcp.message import Id, Message
from switchgear_mcp.protocol import SUBSCRIPTION_KEY
from switchgear_mcp.servers import Server

log: Final = logging.getLogger("switchgear.mcp_proxy")

Finish = Callable[["Message | Exception"], Awaitable[None]]
"""Takes the answer to a request, or why there is none. It is called once, in the order of the answers."""


class Flight:
    """A request of the client that waits for its answer.

    Attributes:
        asked: The request as it came.
        finish: Takes its end.
        headers: Headers of the client's request, over HTTP.
    """

    __slots__ = ("asked", "finish", "headers", "sent", "timer", "token", "tried")

    def __init__(self, asked: Message, finish: Finish, headers: Mapping[str, str]) -> None:
        self.asked, self.finish, self.headers = asked, finish, headers
        self.sent: Id = asked.id
        """The id that the server knows."""
        self.token: Id = rpc.plain(asked.meta.get("progressToken"))
        """The token that the server knows."""
        self.tried = False
        """It was sent on a connection whose session the server had forgotten."""
        self.timer: asyncio.TimerHandle | None = None


class Owner(Protocol):
    """Has one connection after the other."""

    server: Server
    limit_s: float | None
    tasks: Tasks

    def own_id(self) -> str:
        """Return a new id for a request of the proxy."""

    async def failed(self, connection: Connection, flight: Flight, error: Exception) -> None:
        """Let a request end whose answer will not come."""

    async def received(self, message: Message, related: Id) -> None:
        """Take a request or a notification of the server."""


class Connection:
    """One connection, from its start to its end. It gets what the channel reads."""

    def __init__(self, upstream: Owner) -> None:
        self.upstream = upstream
        self.headers: Mapping[str, str] = NO_HEADERS
        self.began = asyncio.get_running_loop().time()
        self.flights: dict[Id, Flight] = {}
        self.tokens: dict[Id, Flight] = {}
        self.greeting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        """The answer to ``initialize``."""
        self.ready = asyncio.Event()
        """It can be used, or it has ended."""
        self.used = self.told = self.retired = self.ended = False
        """It could be used; the server knows that the client is initialized; it is for the requests in flight alone; it has ended."""
        self.gone = asyncio.Event()
        """It has ended, and the reason is known."""
        self.reason = ""
        self._bad_lines = BoundedLog(log)
        self.channel: Channel | None = None
        self.task: asyncio.Task[None] | None = None

    # -- what the channel reads ---------------------------------------------------------------------------------------

    async def receive(self, message: Message, related: Id = None) -> None:
        """Take a message of the server."""
        if message.is_answer:
            flight = self.take(message.id)
            if flight is not None:
                asked = flight.asked
                await flight.finish(message if asked.id == message.id else message.changed(id=asked.fields["id"]))
            elif message.id is None:  # an error whose request the server doesn't know
                await self.upstream.received(message, related)
            return
        known = None if related is None else self.flights.get(related)
        if known is None and not message.is_request and SUBSCRIPTION_KEY in message.meta:
            known = self.flights.get(rpc.plain(message.meta[SUBSCRIPTION_KEY]))
            if known is not None and known.sent != known.asked.id:
                meta = rpc.with_members(message.params["_meta"], **{SUBSCRIPTION_KEY: known.asked.fields["id"]})
                message = message.changed(params=rpc.with_members(message.fields["params"], _meta=meta))
        if message.method == "notifications/progress":
            found = self.tokens.get(rpc.plain(message.params.get("progressToken")))
            if found is not None:
                known, message = found, self._progress(found, message)
        await self.upstream.received(message, None if known is None else known.asked.id)

    async def fail(self, number: Id, error: Exception) -> None:
        """Let a request end without an answer."""
        flight = self.take(number)
        if flight is not None:
            await self.upstream.failed(self, flight, error)

    def skip(self, why: str) -> None:
        """Note a line that is not a message."""
        name = self.upstream.server.name
        log.debug("%s: %s", name, why)
        self._bad_lines.warning(f"The server {name} sent something that is not a message of MCP. It is skipped.")

    # -- requests in flight -------------------------------------------------------------------------------------------

    def add(self, flight: Flight) -> Message:
        """Note a request that is about to be sent. Return it with an id and a progress token that no other one has."""
        message = flight.asked
        if message.id in self.flights:
            flight.sent = self.upstream.own_id()
            message = message.changed(id=flight.sent)
        if flight.token is not None:
            if flight.token in self.tokens:
                flight.token = self.upstream.own_id()
                meta = rpc.with_members(message.params.get("_meta"), progressToken=flight.token)
                message = message.changed(params=rpc.with_members(message.fields["params"], _meta=meta))
            self.tokens[flight.token] = flight
        self.flights[flight.sent] = flight
        self._set_timer(flight)
        return message

    def take(self, number: Id) -> Flight | None:
        """Return a request that ends now, None if it isn't in flight any more."""
        flight = self.flights.pop(number, None)
        if flight is not None:
            if flight.token is not None:
                self.tokens.pop(flight.token, None)
            if flight.timer is not None:
                flight.timer.cancel()
            if self.retired and not self.flights and self.task is not None:
                self.task.cancel()
        return flight

    def find(self, number: Id) -> Flight | None:
        """Return a request in flight by the id that the client knows."""
        found = self.flights.get(number)
        if found is not None and found.asked.id == number:
            return found
        return next((each for each in self.flights.values() if each.asked.id == number), None)

    def _progress(self, flight: Flight, message: Message) -> Message:
        self._set_timer(flight)  # progress extends the limit
        token = flight.asked.meta["progressToken"]
        if rpc.plain(token) == flight.token:
            return message
        return message.changed(params=rpc.with_members(message.fields["params"], progressToken=token))

    def _set_timer(self, flight: Flight) -> None:
        limit = self.upstream.limit_s
        if limit is None or flight.asked.method == "initialize":  # a server may wait for a login when it starts
            return
        if flight.timer is not None:
            flight.timer.cancel()
        loop = asyncio.get_running_loop()
        flight.timer = loop.call_later(limit, lambda: self.upstream.tasks.start(self._expire(flight)))

    async def _expire(self, flight: Flight) -> None:
        if self.take(flight.sent) is None:
            return
        limit = self.upstream.limit_s
        await flight.finish(
            ServerSilentError(f"The server {self.upstream.server.name} did not answer within {limit:g} s.")
        )
        if self.channel is not None:
            params = {"requestId": flight.sent, "reason": f"The proxy's limit of {limit:g} s is over."}
            with suppress(ConnectionError):
                await self.channel.cancel(flight.sent, rpc.notification("notifications/cancelled", params))
