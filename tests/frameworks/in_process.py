"""A client of FastMCP with a proxy in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from fastmcp.client.transports.base import ClientTransport
from mcp import ClientSession
from mcp.shared.message import SessionMessage

from switchgear_mcp.message import Id, Message, parsed
from switchgear_mcp.proxy import Proxy


class InProcess(ClientTransport):
    """Connects a client with a proxy without a process."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    @asynccontextmanager
    async def connect_session(self, *, transport_options: Any = None, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session with the proxy."""
        into, read = anyio.create_memory_object_stream[SessionMessage | Exception](100)
        write, out_of = anyio.create_memory_object_stream[SessionMessage](100)
        link = self._proxy.link(_Side(into))

        async def pump() -> None:
            async for sent in out_of:
                for message in parsed(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode()):
                    await link.handle(message)

        pumping = asyncio.create_task(pump())
        try:
            async with ClientSession(read, write, **options) as session:
                yield session
        finally:
            pumping.cancel()
            await self._proxy.end(link)


class _Side:
    """Sends to the session."""

    logs_in = False

    def __init__(self, into: Any) -> None:
        self._into = into

    async def send(self, message: Message, related: Id = None) -> None:
        """Send a message."""
        try:
            await self._into.send(SessionMessage(types.jsonrpc_message_adapter.validate_json(message.line)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise ConnectionResetError from None
