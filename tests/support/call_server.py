"""A TCP server that many processes call: one byte a call, one byte an answer."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import Final, Self

SUCCESS: Final = b"+"
FAILURE: Final = b"-"
END_S: Final = 5.0
_ACCEPT_TURNS: Final = 5
"""Turns of the event loop until an accepted connection has its handler, and one to spare."""


class CallServer(ABC):
    """The server. A subclass answers the calls. ``async with`` starts and ends it."""

    def __init__(self) -> None:
        self.callers = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @abstractmethod
    async def answer(self, call: bytes) -> bytes:
        """Return the answer to a call."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.callers += 1
        try:
            while call := await reader.read(1):
                writer.write(await self.answer(call))
        except ConnectionError:
            pass  # a caller that was ended in the middle of a call
        finally:
            self.callers -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._open.discard(writer)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_ACCEPT_TURNS):  # a connection that has no handler when the server closes stays open
            await asyncio.sleep(0)
        self._server.close()
        for writer in list(self._open):
            writer.close()
        try:
            async with asyncio.timeout(END_S):
                while self._open:  # noqa: ASYNC110 - each ends by itself once its connection is closed
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass  # the event loop cancels what is left
