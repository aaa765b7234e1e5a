"""A server as one client of the proxy sees it: connections that follow each other, with a pause between failures."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

import mcp_types as types
import msgspec
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import ProgressFnT
from pydantic import RootModel, ValidationError

from switchgear.runtime.backoff import Backoff
from switchgear_mcp.connection import Client, Connection, shown_status
from switchgear_mcp.errors import (
    AnswerTooLargeError,
    ServerDownError,
    ServerSilentError,
    ServerStatusError,
)
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.listing import Inbound
from switchgear_mcp.message_size import MARK, sentence
from switchgear_mcp.servers import Server

log: Final = logging.getLogger("switchgear.mcp_proxy")
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 60.0
"""A connection that lived this long had no part in the failures before it."""
_SPREAD: Final = (0.8, 1.2)
_MOST_SUBSCRIPTIONS: Final = 1_000
_MOST_PAGES: Final = 100
_MOST_ENTRIES: Final = 10_000
"""Of a list. The rest is left out."""
_CALL: Final = "tools/call"
_SESSION_GONE: Final = "Session terminated"
"""The SDK's text for a session that the server doesn't know any more."""
_CLOSED: Final = "Connection closed"
"""The SDK's text for a connection that has ended."""
_NOT_FOUND: Final = 404
_STATUS: Final = "Server returned an error response"
"""The SDK's text for a status of HTTP, which it doesn't say."""


class _AnyRequest(types.Request[dict[str, Any], str]):
    """Any request, as it is."""


class _AnyResult(RootModel[dict[str, Any]]):
    """Any result, as it is."""


class Upstream:
    """One server for one client.

    A connection is made when it is needed. After a failure the next attempt waits 0.5 s, then twice as long each time, up to 30 s.
    Requests in between fail at once. One lost connection is one piece of evidence: it counts in the circuit of the first tool call
    that fails because of it. The other calls under way and those in the pause are ignored.

    Args:
        server: The server.
        client: The client of the proxy.
        limit_s: The longest wait for an answer.
        inbound: What is let in of the server's messages.
        clock: Returns seconds, for the pauses.
        make: Makes a connection.
    """

    def __init__(
        self,
        server: Server,
        client: Client,
        limit_s: float,
        *,
        inbound: Inbound | None = None,
        clock: Callable[[], float] = time.monotonic,
        make: Callable[..., Connection] = Connection,
    ) -> None:
        self._clock, self._make = clock, make
        self._inbound, self._hidden = inbound or Inbound(), Hidden(server)
        self.server = server
        self.info: types.InitializeResult | None = None
        """What the server said about itself last."""
        self.headers: dict[str, str] = {}
        """Headers of the client's last request, for a server at an address."""
        self._client, self._limit_s = client, limit_s
        self._connection: Connection | None = None
        self._began = 0.0
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, spread=_SPREAD)
        self._not_before = 0.0
        self._reason = ""
        self._untold = False
        """A connection was lost, or could not be made, and no tool call has failed because of it yet."""
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, None] = {}

    @property
    def down(self) -> bool:
        """Whether the last attempt to reach the server failed."""
        return self._connection is None and bool(self._reason)

    def begin(self) -> Connection | None:
        """Connect in the background, if there is no connection. Return it, None while a failure is too recent."""
        connection = self._connection
        if connection is None:
            if self._clock() < self._not_before:
                return None
            self._began = self._clock()
            connection = self._connection = self._make(self.server, self._client, self._prepare, self._inbound)
        connection.headers = self.headers
        return connection

    async def retry(self) -> None:
        """Try to reach a server that this client has not seen yet, unless the last failure is too recent."""
        with suppress(ServerDownError):
            await self.connect()

    async def connect(self, method: str = "") -> ClientSession:
        """Return the session of a connection that can be used.

        Args:
            method: What is asked for.

        Raises:
            ServerDownError: There is none.
        """
        broken = self._connection
        if broken is not None and not (broken.alive or broken.starting):
            await broken.ended()
            self._lost(broken)
        connection = self.begin()
        if connection is None:
            self._refuse(method)
        if connection.session is None:
            await connection.started()
        session = connection.session
        if session is None:
            self._lost(connection)
            self._refuse(method)
        return session

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Send a request as it is, and return the result as it is.

        Args:
            method: The method.
            params: Its parameters. A progress token in them is replaced, see ``on_progress``.
            on_progress: Called for each notification of progress.

        Raises:
            MCPError: The server's error, without the secrets of its own entry.
            AnswerTooLargeError: The answer costs more than the proxy reads.
            ServerDownError: The server can't be reached, or the connection ended.
            ServerSilentError: The server did not answer in time.
            ServerStatusError: The server answered with a status of HTTP.
        """
        sent = {key: value for key, value in (params or {}).items() if key != "_meta"}
        meta = {key: value for key, value in ((params or {}).get("_meta") or {}).items() if key != "progressToken"}
        if meta:
            sent["_meta"] = meta
        request = _AnyRequest(method=method, params=sent)
        for attempt in (1, 2):
            session = await self.connect(method)
            connection = self._connection
            assert connection is not None
            try:
                result = await session.send_request(
                    request, _AnyResult, request_read_timeout_seconds=self._limit_s, progress_callback=on_progress
                )
            except MCPError as error:
                if attempt == 1 and (error.message == _SESSION_GONE or connection.ending.status_code == _NOT_FOUND):
                    # The server has forgotten the session, and has not looked at the request.
                    if self._connection is connection:
                        self._connection = None
                        await connection.close()
                    continue
                await self._raise(connection, error, method)
            except ValidationError:
                raise MCPError(
                    types.INTERNAL_ERROR,
                    f"The server {self.server.name} answered {method} with a result that is not valid.",
                ) from None
            self._remember(method, params)
            return result.root
        raise AssertionError

    async def pages(self, method: str, key: str) -> list[dict[str, Any]]:
        """Return all entries of a list. All pages together may take as much as one answer; the rest is left out.

        Args:
            method: For example ``tools/list``.
            key: Where the entries are in the result.

        Raises:
            Exception: See :meth:`request`.
        """
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        size = 0
        for _ in range(_MOST_PAGES):
            page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            size += len(msgspec.json.encode(page))
            entries = page.get(key)
            found += [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
            cursor = page.get("nextCursor")
            if not cursor or len(found) >= _MOST_ENTRIES or size >= self._inbound.most:
                break
        return found[:_MOST_ENTRIES]

    async def notify(self, notification: Any) -> None:
        """Send a notification of the client, if there is a connection."""
        if self._connection is not None and self._connection.session is not None:
            await self._connection.session.send_notification(notification)

    async def close(self) -> None:
        """End the connection and the server's process."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _prepare(self, session: ClientSession) -> None:
        """Give a new connection what the client has set on an earlier one."""
        self.info = session.initialize_result
        offered = None if self.info is None else self.info.capabilities
        wanted: list[tuple[str, dict[str, Any]]] = []
        if self._level is not None and offered is not None and offered.logging is not None:
            wanted.append(("logging/setLevel", self._level))
        wanted += [("resources/subscribe", {"uri": uri}) for uri in self._subscribed]
        for method, params in wanted:
            try:
                await session.send_request(_AnyRequest(method=method, params=params), _AnyResult)
            except MCPError as error:
                why = self._hidden.line(error.message)
                log.warning("The server %s refused %s after a restart: %s", self.server.name, method, why)

    def set_level(self, params: Mapping[str, Any]) -> None:
        """Remember the level of log messages for connections to come."""
        self._level = dict(params)

    def _remember(self, method: str, params: Mapping[str, Any] | None) -> None:
        if method == "resources/subscribe" and params and len(self._subscribed) < _MOST_SUBSCRIPTIONS:
            self._subscribed[str(params.get("uri"))] = None
        elif method == "resources/unsubscribe" and params:
            self._subscribed.pop(str(params.get("uri")), None)

    async def _raise(self, connection: Connection, error: MCPError, method: str) -> NoReturn:
        """Raise what a failed request means."""
        name = self.server.name
        if MARK in error.message:
            raise AnswerTooLargeError(sentence(name, self._inbound.most)) from None
        if error.code == types.REQUEST_TIMEOUT:
            raise ServerSilentError(f"The server {name} did not answer within {self._limit_s:g} s.") from None
        if error.code == types.CONNECTION_CLOSED:
            if error.message == _CLOSED or not connection.alive:
                await connection.ended()
                self._lost(connection)
                raise ServerDownError(
                    f"The server {name} {self._reason or 'has ended'}. The call was under way.", news=self._tell(method)
                ) from None
            text = f"The server {name} ended the answer: {self._hidden.hide(error.message)}."
            raise ServerDownError(text) from None
        status = connection.ending.status_code
        if error.message == _STATUS and status is not None:
            text = f"The server {name} answered with HTTP {shown_status(status)}."
            raise ServerStatusError(text, status, connection.ending.wait_s) from None
        if (shown := self._hidden.hide(error.message)) != error.message:
            raise MCPError(error.code, shown, error.error.data) from None
        raise error

    def _lost(self, connection: Connection) -> None:
        """Note that a connection can't be used any more, once."""
        if self._connection is not connection:
            return
        self._connection = None
        self._untold = True
        now = self._clock()
        if now - self._began >= STEADY_S:
            self._backoff.reset()
        self._reason = connection.ending.reason or "has ended"
        self._not_before = now + self._backoff.next_s()
        log.warning("The server %s %s.", self.server.name, self._reason)

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
            f"The server {self.server.name} {self._reason}. The first call after {wait:.1f} s tries again.",
            news=self._tell(method),
        )


async def connected(upstreams: list[Upstream], limit_s: float) -> None:
    """Wait until every server is connected or can't be reached, at most ``limit_s`` seconds."""
    starting = [each for each in (upstream.begin() for upstream in upstreams) if each is not None]
    if starting:
        await asyncio.wait([asyncio.ensure_future(each.started()) for each in starting], timeout=limit_s)
