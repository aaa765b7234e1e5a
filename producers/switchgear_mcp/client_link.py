"""A client of the proxy, with its own connection to each server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientRequestContext
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.message import ServerMessageMetadata

from switchgear_http.principal import Principal, Role
from switchgear_mcp.listing import Inbound
from switchgear_mcp.servers import Server
from switchgear_mcp.upstream import Upstream

log: Final = logging.getLogger("switchgear.mcp_proxy")
_LIST_CHANGED: Final = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)
_READY_LIMIT_S: Final = 30.0
"""The longest wait until a client says that it is initialized."""
_SEND_LIMIT_S: Final = 5.0
"""The longest wait until a client reads a notification."""


class ClientLink:
    """Passes a server's requests and notifications on to one client.

    Args:
        session: A session of the SDK with the client.
        connection: The client's connection.
        params: What the client said about itself.
        servers: The servers behind the proxy.
        limit_s: The longest wait for a server's answer.
        inbound: What is let in of the servers' messages.
    """

    def __init__(
        self,
        session: ServerSession,
        connection: Connection,
        params: types.InitializeRequestParams,
        servers: Sequence[Server],
        limit_s: float,
        inbound: Inbound,
    ) -> None:
        self.params = params
        self.principal: Principal | None = None
        """Who the client is, over HTTP. None: the proxy's own user."""
        self.upstreams = {server.name: Upstream(server, self, limit_s, inbound=inbound) for server in servers}
        self.tools: dict[str, list[types.Tool]] = {}
        """The tools of each server as they were listed last."""
        self.stale: set[str] = set()
        """Servers whose tools have changed since."""
        self.offered: frozenset[str] | None = None
        """The names of the tools that the client knows of. None before its first list."""
        self.greeted = False
        """The client has got its answer to the handshake, so that it knows what the servers were then."""
        self._session, self._connection = session, connection
        self._current: dict[types.RequestId, ServerRequestContext[Any, Any]] = {}

    def may_use(self, circuit: str) -> bool:
        """Return whether the client's token allows a tool, by the name of its circuit."""
        return self.principal is None or self.principal.may(Role.EMIT, circuit)

    def entered(self, context: ServerRequestContext[Any, Any]) -> None:
        """Note that a request of the client is under way."""
        if context.request_id is not None:
            self._current[context.request_id] = context

    def left(self, context: ServerRequestContext[Any, Any]) -> None:
        """Note that a request of the client has ended."""
        if context.request_id is not None:
            self._current.pop(context.request_id, None)

    async def ask(self, request: Any, result: Any, context: ClientRequestContext) -> Any:
        """Let the client answer a request of a server."""
        with anyio.move_on_after(_READY_LIMIT_S):
            await self._connection.initialized.wait()
        token = (context.meta or {}).get("progress_token")

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            params = types.ProgressNotificationParams(
                progress_token=token, progress=progress, total=total, message=message
            )
            await context.session.send_notification(types.ProgressNotification(params=params))

        session, related = self._channel()
        try:
            return await session.send_request(
                request,
                result,
                metadata=ServerMessageMetadata(related_request_id=related),
                progress_callback=None if token is None else on_progress,
            )
        except MCPError as error:
            return error.error

    async def receive(self, server: str, notification: Any) -> None:
        """Pass a notification of a server on to the client."""
        if isinstance(notification, types.ProgressNotification):
            return  # of one request: see ProxyServer
        if isinstance(notification, types.ToolListChangedNotification):
            self.stale.add(server)
        session, related = self._channel()
        await _send(session, notification, None if isinstance(notification, _LIST_CHANGED) else related)

    async def tools_changed(self) -> None:
        """Let the client list the tools again."""
        await _send(self._session, types.ToolListChangedNotification())

    async def connected(self, server: str) -> None:
        """Let the client list everything again if a server comes later, or again: it may have changed."""
        self.stale.add(server)
        if self.greeted:
            await asyncio.gather(*(_send(self._session, kind()) for kind in _LIST_CHANGED))

    async def close(self) -> None:
        """End the connections to the servers."""
        await asyncio.gather(*(each.close() for each in self.upstreams.values()), return_exceptions=True)

    def _channel(self) -> tuple[ServerSession, types.RequestId | None]:
        """Return where to send: over HTTP, the answer to the client's latest request, if one is under way."""
        if self._current:
            context = next(reversed(self._current.values()))
            return context.session, context.request_id
        return self._session, None


async def _send(session: ServerSession, notification: Any, related: types.RequestId | None = None) -> None:
    """Send a notification. If the client doesn't read, it is left out."""
    with anyio.move_on_after(_SEND_LIMIT_S), suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await session.send_notification(notification, related)
