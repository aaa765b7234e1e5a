"""A server as one client of the proxy sees it: connections that follow each other, and the requests in flight.

A connection is made when it is needed. After a failure the next attempt waits 0.5 s, then twice as long each time, up to 30 s. Requests in
between fail at once. One lost connection is one piece of evidence: it counts in the circuit of the first tool call that fails because of
it. The other calls under way and those in the pause are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn, Protocol

from switchgear.runtime.backoff import Backoff
from switchgear.runtime.tasks import Tasks
from switchgear_mcp import message as rpc
from switchgear_mcp.channel import MIB, NO_HEADERS, Channel, Receiver
from switchgear_mcp.connection import Connection, Finish, Flight
from switchgear_mcp.errors import ServerDownError, ServerStatusError, SessionGoneError
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.message import Id, Message
from switchgear_mcp.newer import ForNewerClients
from switchgear_mcp.older import ForOlderClients
from switchgear_mcp.servers import CommandServer, Server
from switchgear_schemas.visible import sentence

log: Final = logging.getLogger("switchgear.mcp_proxy")
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 60.0
"""A connection that lived this long had no part in the failures before it."""
MOST_BYTES: Final = 256 * MIB
"""Of one message."""
_SPREAD: Final = (0.8, 1.2)
_STOP_LIMIT_S: Final = 4.8
"""A process gets 2 s to end by itself and 2 s after SIGTERM, then it is killed."""
_MOST_SUBSCRIPTIONS: Final = 1_000
_MOST_REASON: Final = 500
_CALL: Final = "tools/call"
_OWN: Final = "switchgear-"
"""How the ids of the proxy's own requests begin."""


class Client(Protocol):
    """The client of the proxy."""

    async def receive(self, upstream: Upstream, message: Message, related: Id) -> None:
        """Take a request or a notification of a server.

        Args:
            upstream: The server.
            message: The message.
            related: The id of the client's request that it is about, None if that isn't known.
        """

    async def connected(self, upstream: Upstream) -> None:
        """Note that a server can be used, for the first time or again."""

    async def lost(self, upstream: Upstream) -> None:
        """Note that a connection has ended: requests of the server need no answer."""


MakeChannel = Callable[[Server, Connection, int, Hidden], Channel]


def channel_of(server: Server, connection: Connection, most: int, hidden: Hidden) -> Channel:
    """Return a way to a server."""

    def inner(receiver: Receiver) -> Channel:
        if isinstance(server, CommandServer):
            from switchgear_mcp.process import Process  # noqa: PLC0415 - only one of the two is needed

            return Process(server, receiver, most, hidden)
        from switchgear_mcp.sse import Either, Sse  # noqa: PLC0415 - httpx2 takes time to import

        return (Sse if server.sse else Either)(server, receiver, most, hidden)

    return ForNewerClients(connection, lambda receiver: ForOlderClients(receiver, inner))


class Upstream:
    """One server for one client.

    Args:
        server: The server.
        client: The client of the proxy.
        limit_s: The longest wait for an answer or for progress. None: the client's own limit.
        most: The most bytes of one message.
        clock: Returns seconds, for the pauses.
        make: Makes the way to the server.
    """

    def __init__(
        self,
        server: Server,
        client: Client,
        *,
        limit_s: float | None = None,
        most: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
        make: MakeChannel = channel_of,
    ) -> None:
        self.server, self.client, self.limit_s = server, client, limit_s
        self._most, self._clock, self._make = most, clock, make
        self._hidden = Hidden(server)
        self.hello: Message | None = None
        """The client's ``initialize``. None in the protocol without a handshake."""
        self.initialized: Message | None = None
        """The client's notification that it is initialized."""
        self.greeted: Message | None = None
        """The server's last answer to ``initialize``."""
        self.refusal: ServerStatusError | None = None
        """Why the server refused the last handshake, over HTTP."""
        self.works = False
        """It was reached once."""
        self.late = False
        """The client's handshake was answered without it."""
        self._connection: Connection | None = None
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, spread=_SPREAD)
        self._began = self._not_before = 0.0
        self.reason = ""
        """Why the last connection ended."""
        self._untold = False
        """A connection was lost, or could not be made, and no tool call has failed because of it yet."""
        self._level: Message | None = None
        self._subscribed: dict[str, Message] = {}
        self._numbers = 0
        self.tasks = Tasks()

    @property
    def down(self) -> bool:
        """Whether the last attempt to reach the server failed."""
        return self._connection is None and bool(self.reason)

    # -- what the client sends ----------------------------------------------------------------------------------------

    async def request(self, message: Message, finish: Finish, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Send a request of the client. Its end goes to ``finish``: it may come before this returns.

        Args:
            message: The request.
            finish: Takes the answer or, if there is none, a ServerDownError, a ServerSilentError, a ServerStatusError or an
                AnswerTooLargeError.
            headers: Headers of the client's request, over HTTP.
        """
        await self._send(Flight(message, finish, headers))

    async def ask(self, method: str, params: Any = None, headers: Mapping[str, str] = NO_HEADERS) -> Message:
        """Send a request of the proxy itself, and return the answer.

        Raises:
            Exception: There is none. See :meth:`request`.
        """
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        async def finish(end: Message | Exception) -> None:
            if not answered.done():
                if isinstance(end, Exception):
                    answered.set_exception(end)
                else:
                    answered.set_result(end)

        await self.request(rpc.request(self.own_id(), method, params), finish, headers)
        return await answered

    async def notify(self, message: Message, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Send a notification or an answer of the client, if there is a connection."""
        if message.method == "notifications/initialized":
            self.initialized = message
            connection = self._connection
            if connection is None or not connection.greeting.done() or connection.told:
                return  # it is sent after the server's answer
            connection.told = True
        connection = self._connection
        if connection is not None and connection.channel is not None and not connection.ended:
            with suppress(ConnectionError):
                await connection.channel.send(message, headers)

    async def cancel(self, number: Id, message: Message) -> Flight | None:
        """Cancel a request of the client.

        Args:
            number: The id that the client knows.
            message: The client's notification, which passes.

        Returns:
            The request, which gets no answer any more. None if it isn't in flight.
        """
        connection = self._connection
        flight = None if connection is None else connection.find(number)
        if flight is None or connection is None or connection.channel is None:
            return None
        connection.take(flight.sent)
        if flight.sent != number:
            message = message.changed(params=rpc.with_members(message.fields["params"], requestId=flight.sent))
        with suppress(ConnectionError):
            await connection.channel.cancel(flight.sent, message)
        return flight

    def has(self, number: Id) -> bool:
        """Return whether a request of the client is in flight, by the id that it knows."""
        return self._connection is not None and self._connection.find(number) is not None

    # -- connections --------------------------------------------------------------------------------------------------

    def begin(self, headers: Mapping[str, str] = NO_HEADERS) -> Connection | None:
        """Connect in the background, if there is no connection. Return it, None while a failure is too recent."""
        connection = self._connection
        if connection is None:
            if self._clock() < self._not_before:
                return None
            self._began = self._clock()
            connection = self._connection = Connection(self)
            connection.headers = headers
            connection.channel = self._make(self.server, connection, self._most, self._hidden)
            connection.task = asyncio.create_task(self._run(connection))
        return connection

    async def connect(self, method: str = "", headers: Mapping[str, str] = NO_HEADERS) -> Connection:
        """Return a connection that can be used.

        Args:
            method: What is asked for.
            headers: Headers of the client's request, over HTTP.

        Raises:
            ServerDownError: There is none.
        """
        connection = self.begin(headers)
        if connection is None:
            self._refuse(method)
        if not connection.ready.is_set():
            await connection.ready.wait()
        if connection.ended:
            await connection.gone.wait()
            self._refuse(method)
        return connection

    async def settled(self, limit_s: float) -> None:
        """Wait until a server that starts can be used, or until its start is longer ago than a limit."""
        connection = self._connection
        if connection is None:
            return
        left = connection.began + limit_s - asyncio.get_running_loop().time()
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await connection.ready.wait()

    async def retry(self) -> None:
        """Try to reach a server that this client has not seen yet, unless the last failure is too recent."""
        with suppress(ServerDownError):
            await self.connect()

    async def greet(self, hello: Message, headers: Mapping[str, str] = NO_HEADERS) -> asyncio.Future[Message] | None:
        """Begin the handshake. Return the future answer of the server, None while a failure is too recent."""
        self.hello = hello
        had = self._connection
        connection = self.begin(headers)
        if connection is not None and connection is had and connection.ready.is_set() and not connection.ended:
            connection.ready.clear()
            self.tasks.start(self._greet(connection))
        return None if connection is None else connection.greeting

    async def close(self) -> None:
        """End the connection and the server's process."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.task is not None:
            connection.task.cancel()
            await asyncio.wait({connection.task}, timeout=_STOP_LIMIT_S)
        self.tasks.cancel()

    def own_id(self) -> str:
        """Return a new id for a request of the proxy."""
        self._numbers += 1
        return f"{_OWN}{self._numbers}"

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _send(self, flight: Flight) -> None:
        method = flight.asked.method or ""
        try:
            connection = await self.connect(method, flight.headers)
        except ServerDownError as error:
            await flight.finish(error)
            return
        assert connection.channel is not None
        self._remember(flight.asked)
        sent = connection.add(flight)
        try:
            await connection.channel.send(sent, flight.headers)
        except ConnectionError:
            # Its end ends all requests in it; this one may have come after it.
            if connection.ended:
                await connection.gone.wait()
                await connection.fail(flight.sent, ConnectionError())
            elif connection.task is not None:
                connection.task.cancel()

    async def received(self, message: Message, related: Id) -> None:
        """Pass a request or a notification of the server on."""
        await self.client.receive(self, message, related)

    async def failed(self, connection: Connection, flight: Flight, error: Exception) -> None:
        """Let a request end whose answer will not come, or send it again."""
        if isinstance(error, SessionGoneError) and not flight.tried:
            if self._connection is connection:
                self._connection, connection.retired = None, True
            flight.tried = True
            flight.sent, flight.token = flight.asked.id, rpc.plain(flight.asked.meta.get("progressToken"))
            self.tasks.start(self._send(flight))
            if not connection.flights and connection.task is not None:
                connection.task.cancel()
        elif isinstance(error, ConnectionError) and not isinstance(error, ServerDownError):
            await flight.finish(self._lost_error(flight))
        else:
            await flight.finish(error)

    async def _run(self, connection: Connection) -> None:
        assert connection.channel is not None
        error: BaseException | None = None

        def opened() -> None:
            self.tasks.start(self._opened(connection))

        try:
            await connection.channel.run(opened)
        except (Exception, asyncio.CancelledError) as caught:  # noqa: BLE001 - it is described
            error = caught
        connection.ended = True
        if isinstance(error, ServerStatusError):
            self.refusal = error
        if not connection.reason and self._connection is connection:
            text = await connection.channel.described(error)
            connection.reason = sentence(self._hidden.hide(text))
        self._lost(connection)
        connection.ready.set()
        connection.gone.set()
        for number in list(connection.flights):
            flight = connection.take(number)
            if flight is not None:
                with suppress(ConnectionError):
                    await flight.finish(self._lost_error(flight))
        if not connection.greeting.done():
            connection.greeting.cancel()
        await self.client.lost(self)

    async def _opened(self, connection: Connection) -> None:
        if self.hello is not None:
            await self._greet(connection)
        else:
            await self._usable(connection)

    async def _greet(self, connection: Connection) -> None:
        """Make the handshake, with the client's own words."""
        assert self.hello is not None
        assert connection.channel is not None
        hello = self.hello

        async def greeted(end: Message | Exception) -> None:
            self.refusal = end if isinstance(end, ServerStatusError) else None
            if self.refusal is not None:
                self._give_up(connection, str(self.refusal).removeprefix(f"The server {self.server.name} "))
                return
            if isinstance(end, Exception):
                return  # the connection has ended
            if "error" in end.fields and self.greeted is not None:
                text = rpc.plain(rpc.members(end.fields["error"]).get("message"))
                self._give_up(connection, f"refused the connection: {text}")
                return
            if "error" not in end.fields:
                self.greeted = end
            if not connection.greeting.done():
                connection.greeting.set_result(end)
            self.tasks.start(self._restored(connection))

        sent = connection.add(Flight(hello, greeted, connection.headers))
        with suppress(ConnectionError):
            await connection.channel.send(sent, connection.headers)

    def _give_up(self, connection: Connection, reason: str) -> None:
        connection.reason = sentence(self._hidden.hide(reason)).rstrip(".")
        if connection.task is not None:
            connection.task.cancel()

    async def _restored(self, connection: Connection) -> None:
        """Give a new connection what the client has set on an earlier one."""
        assert connection.channel is not None
        if self.initialized is not None and not connection.told:
            connection.told = True
            with suppress(ConnectionError):
                await connection.channel.send(self.initialized, connection.headers)
        if self.works and not connection.used:
            for each in filter(None, (self._level, *self._subscribed.values())):
                answer = rpc.request(self.own_id(), each.method or "", each.fields.get("params"))
                with suppress(ConnectionError):
                    await connection.channel.send(connection.add(Flight(answer, _ignored, connection.headers)), {})
        await self._usable(connection)

    async def _usable(self, connection: Connection) -> None:
        again = self.late or (self.works and not connection.used)
        self.works, self.late, connection.used = True, False, True
        connection.ready.set()
        if again:
            await self.client.connected(self)

    def _remember(self, message: Message) -> None:
        if message.method == "logging/setLevel":
            self._level = message
        elif message.method in {"resources/subscribe", "resources/unsubscribe"}:
            uri = str(rpc.plain(message.params.get("uri")))
            self._subscribed.pop(uri, None)
            if message.method == "resources/subscribe" and len(self._subscribed) < _MOST_SUBSCRIPTIONS:
                self._subscribed[uri] = message

    def _lost(self, connection: Connection) -> None:
        """Note that a connection can't be used any more, once."""
        if self._connection is not connection:
            return
        self._connection = None
        self._untold = True
        now = self._clock()
        if now - self._began >= STEADY_S:
            self._backoff.reset()
        self.reason = connection.reason[:_MOST_REASON] or "has ended"
        self._not_before = now + self._backoff.next_s()
        log.warning("The server %s %s.", self.server.name, self.reason)

    def _lost_error(self, flight: Flight) -> ServerDownError:
        text = f"The server {self.server.name} {self.reason or 'has ended'}. The call was under way."
        return ServerDownError(text, news=self._tell(flight.asked.method or ""))

    def _tell(self, method: str) -> bool:
        """Return whether a request that fails because of the last loss is the tool call that counts for it.

        Other requests go through no circuit, so the loss must not count by them.
        """
        news = self._untold and method == _CALL
        self._untold = self._untold and not news
        return news

    def _refuse(self, method: str) -> NoReturn:
        wait = max(0.0, self._not_before - self._clock())
        raise ServerDownError(
            f"The server {self.server.name} {self.reason}. The first call after {wait:.1f} s tries again.",
            news=self._tell(method),
        )


async def _ignored(_end: Message | Exception) -> None:
    """Ignore the answer to a request that a restarted server gets again."""
