"""A client of server-sent events on a bare socket, so that a test sees each byte, and a bench can open thousands."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple, Self
from urllib.parse import quote


class ServerEvent(NamedTuple):
    """One event."""

    id: str
    event: str
    data: Any


class EventStream:
    """One request for a stream. Use it as an asynchronous context.

    Attributes:
        status: The HTTP status.
        headers: The headers of the answer, with names in lower case.
        last_id: Id of the last event.
    """

    def __init__(
        self,
        port: int,
        *,
        tool: str | None = None,
        token: str | None = None,
        last_id: str | None = None,
        receive_buffer: int | None = None,
    ) -> None:
        self._port = port
        query = "" if tool is None else f"?tool={quote(tool)}"
        lines = [f"GET /v1/circuits/stream{query} HTTP/1.1", "Host: localhost", "Accept: text/event-stream"]
        lines += [] if token is None else [f"Authorization: Bearer {token}"]
        lines += [] if last_id is None else [f"Last-Event-ID: {last_id}"]
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self._limit = 65_536 if receive_buffer is None else receive_buffer
        self._waiting = b""
        self._events: list[ServerEvent] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.last_id = last_id
        self.received = 0

    async def __aenter__(self) -> Self:
        """Open the stream."""
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the connection."""
        self.close()

    async def open(self) -> None:
        """Send the request and read the header of the answer."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=self._limit)
        self._writer.write(self._request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def body(self) -> bytes:
        """Return an answer that is no stream."""
        return await self._reader.readexactly(int(self.headers["content-length"]))

    async def next(self, timeout: float = 30.0) -> ServerEvent | None:  # noqa: ASYNC109 - a limit for each event
        """Return the next event, or None if the stream has ended."""
        async with asyncio.timeout(timeout):
            while not self._events:
                chunk = await self.chunk()
                if not chunk:
                    return None
                *events, self._waiting = (self._waiting + chunk).split(b"\n\n")
                self._events += [_parsed(event.decode()) for event in events]
        found = self._events.pop(0)
        self.last_id = found.id
        return found

    async def chunk(self) -> bytes:
        """Return the next part of the body, as the server sent it."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        chunk = (await self._reader.readexactly(size + 2))[:-2]
        self.received += len(chunk)
        return chunk


def _parsed(text: str) -> ServerEvent:
    fields = dict(line.split(": ", 1) for line in text.split("\n"))
    return ServerEvent(fields["id"], fields["event"], json.loads(fields["data"]))
