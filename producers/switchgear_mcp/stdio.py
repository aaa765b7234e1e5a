"""Standard input and output as streams of lines of the event loop.

The SDK's own use a thread for each line that is read or written, and a read can't be cancelled.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio

MOST_BYTES: Final = 64 * 1_048_576
"""The longest line, which is one message."""


class Lines:
    """The lines of standard input."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # longer than MOST_BYTES: what is left of it is not a message either
                continue
            if not line:
                return
            yield line.decode(errors="replace")


class Output:
    """Standard output. Writing waits until the client reads."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Write a line."""
        self._writer.write(text.encode())

    async def flush(self) -> None:
        """Wait until there is room for more.

        Raises:
            ClosedResourceError: The client has gone.
        """
        try:
            await self._writer.drain()
        except ConnectionError:
            raise anyio.ClosedResourceError from None


async def standard_streams() -> tuple[Any, Any]:
    """Return standard input and output for the SDK's server. Whatever else is printed goes to standard error.

    Returns:
        Two times None if they are neither pipes nor sockets nor a terminal: the SDK's own do then.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    wire_in, wire_out = os.dup(0), os.dup(1)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(wire_in, "rb", 0))
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(wire_out, "wb", 0)
        )
    except ValueError:  # a file
        return None, None
    sys.stdout.flush()
    os.dup2(2, 1)
    return Lines(reader), Output(asyncio.StreamWriter(transport, protocol, None, loop))
