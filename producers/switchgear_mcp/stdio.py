"""The client at standard input and output."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from switchgear.runtime.throttled_log import BoundedLog
from switchgear_mcp import message as rpc
from switchgear_mcp.lines import Lines, TooLarge
from switchgear_mcp.message import Id, Message, parsed
from switchgear_mcp.proxy import Proxy

log: Final = logging.getLogger("switchgear.mcp_proxy")
_PIECE: Final = 262_144


class StandardStreams:
    """Standard input and output. Whatever else is printed goes to standard error from then on.

    Call :meth:`open` in the event loop before anything else.
    """

    def __init__(self) -> None:
        self._writer: asyncio.StreamWriter | None = None
        self._out = -1
        self._reader = asyncio.StreamReader(limit=_PIECE)

    async def open(self) -> None:
        """Take over the streams."""
        loop = asyncio.get_running_loop()
        wire_in, self._out = os.dup(0), os.dup(1)
        if _can_be_waited_for(wire_in):
            await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(wire_in, "rb", 0)
            )
        else:
            threading.Thread(target=_copy, args=(wire_in, self._reader, loop), daemon=True).start()
        with suppress(ValueError):
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(os.dup(1), "wb", 0)
            )
            self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        sys.stdout.flush()
        os.dup2(2, 1)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what is read until the input ends."""
        while piece := await self._reader.read(_PIECE):
            yield piece

    async def write(self, line: bytes) -> None:
        """Write a line, and wait until there is room for more.

        Raises:
            ConnectionError: The client has gone.
        """
        if self._writer is None:
            await asyncio.to_thread(_write_all, self._out, line + b"\n")
            return
        self._writer.write(line + b"\n")
        await self._writer.drain()


def _can_be_waited_for(source: int) -> bool:
    """Return whether the event loop can wait for input. It can't for a file or a device such as ``/dev/null``, though asyncio takes the latter."""
    mode = os.fstat(source).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(source)


def _copy(source: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    with os.fdopen(source, "rb") as file:
        while piece := file.read(_PIECE):
            loop.call_soon_threadsafe(reader.feed_data, piece)
    loop.call_soon_threadsafe(reader.feed_eof)


def _write_all(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


class StdioSide:
    """Sends to the client."""

    logs_in = False

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    async def send(self, message: Message, related: Id = None) -> None:  # noqa: ARG002 - there is one stream
        """Write a message."""
        await self._write(message.line)  # type: ignore[misc]


async def serve(proxy: Proxy, streams: StandardStreams) -> None:
    """Serve one client until it has gone."""
    side = StdioSide(streams.write)
    link, lines, bad_lines = proxy.link(side), Lines(proxy.most), BoundedLog(log)
    try:
        async for piece in streams.pieces():
            for line in lines.add(piece):
                if isinstance(line, TooLarge):
                    bad_lines.warning("The client sent a message that is too large. It is skipped.")
                    continue
                try:
                    found = parsed(line)
                except ValueError as error:
                    await side.send(_not_read(error))
                    continue
                for message in found:
                    await link.handle(message)
    except ConnectionError:
        log.debug("The client has gone.")
    finally:
        await proxy.end(link)


def _not_read(error: ValueError) -> Message:
    fields = {"code": -32700, "message": f"Parse error: {error}"[:300]}
    return Message({"jsonrpc": rpc.raw("2.0"), "id": rpc.raw(None), "error": rpc.raw(fields)})
