"""What goes to a client over HTTP: streams of answers, and the standing stream."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from switchgear_mcp.message import Id, Message

PING_S: Final = 15.0
"""A stream gets a comment after so many seconds without a message: what is between may end idle connections."""
_MOST_WAITING: Final = 256
"""Messages that wait for a stream of a client that has none now."""


class Stream:
    """The messages for one answer, or for a client's standing stream."""

    def __init__(self) -> None:
        self._queue = asyncio.Queue[Message | None](16)
        self.closed = False

    async def put(self, message: Message) -> None:
        """Add a message, and wait until there is room for it.

        Raises:
            ConnectionError: The client no longer reads.
        """
        if self.closed:
            raise ConnectionResetError
        await self._queue.put(message)

    async def get(self) -> Message | None:
        """Return the next message. None: there was none for a while, or the stream is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_S):
                return await self._queue.get()
        return None

    def close(self) -> None:
        """Leave out what comes from now on."""
        self.closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)


class HttpSide:
    """Sends to a client: on the stream of the request that a message is about, else of the latest one, else on the standing stream."""

    logs_in = True

    def __init__(self, *, stateless: bool = False) -> None:
        self.streams: dict[Id, Stream] = {}
        self.standing: Stream | None = None
        self._waiting = deque[Message](maxlen=_MOST_WAITING)
        self._stateless = stateless

    async def send(self, message: Message, related: Id = None) -> None:
        """Send a message to the client."""
        found = self.streams.get(related)
        if found is None and not message.is_answer:
            found = self._other(message)
        if found is None or found.closed:
            if not message.is_answer and not self._stateless:
                self._waiting.append(message)
            return
        await found.put(message)

    def open(self) -> Stream:
        """Return a new standing stream, with what waited for it."""
        if self.standing is not None:
            self.standing.close()
        self.standing = stream = Stream()
        return stream

    def waiting(self) -> list[Message]:
        """Return what waited for a stream, once."""
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def _other(self, message: Message) -> Stream | None:
        if self._stateless:
            return next(iter(self.streams.values())) if len(self.streams) == 1 else None
        changed = message.method is not None and message.method.endswith("/list_changed")
        if changed or not self.streams:
            return self.standing
        return next(reversed(self.streams.values()))
