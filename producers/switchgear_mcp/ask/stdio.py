"""Standard input and output as lines of the event loop, for the SDK's server.

The SDK's own use a thread for each line that is read or written, and a read can't be cancelled.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread
from typing import Any, Final

import anyio

MOST_BYTES: Final = 4 * 1_048_576
"""The longest line, which is one message. A longer one is skipped."""
_PIECE: Final = 65_536


class _Lines:
    """The lines of an input."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # too long: what is left of it is not a message either
                continue
            if not line:
                return
            yield line.decode(errors="replace")


class _Output:
    """An output. Writing waits until the client reads."""

    def __init__(self, target: int, writer: asyncio.StreamWriter | None) -> None:
        self._target, self._writer = target, writer

    async def write(self, text: str) -> None:
        data = text.encode()
        if self._writer is not None:
            self._writer.write(data)
            return
        while data:
            data = data[await asyncio.to_thread(os.write, self._target, data) :]

    async def flush(self) -> None:
        try:
            if self._writer is not None:
                await self._writer.drain()
        except ConnectionError:
            raise anyio.ClosedResourceError from None


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Take over standard input and output while the block runs. Whatever else is printed goes to standard error."""
    loop = asyncio.get_running_loop()
    reader, writer = asyncio.StreamReader(limit=MOST_BYTES), None
    wire_in, wire_out = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), wire_in)
    except ValueError:  # a file
        Thread(target=_copy, args=(wire_in, reader, loop), daemon=True).start()
    with suppress(ValueError):
        transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop), wire_out)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        yield _Lines(reader), _Output(wire_out.fileno(), writer)
    finally:
        (wire_out if writer is None else writer).close()


def _copy(source: Any, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    with source, suppress(RuntimeError):  # the loop has ended
        while piece := source.read(_PIECE):
            loop.call_soon_threadsafe(reader.feed_data, piece)
        loop.call_soon_threadsafe(reader.feed_eof)
