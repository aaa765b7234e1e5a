"""Clients of server-sent events: one on a bare socket, so that a test sees each byte, and a bench can open thousands; and one in the process."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from starlette.types import ASGIApp, Message

from tests.support.limits import ANSWER_S, HAPPEN_S


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

    async def next(self, timeout: float = HAPPEN_S) -> ServerEvent | None:  # noqa: ASYNC109 - a limit for each event
        """Return the next event, or None if the stream has ended."""
        async with asyncio.timeout(timeout):
            while not self._events:
                chunk = await self.chunk()
                if not chunk:
                    return None
                events, _, self._waiting = (self._waiting + chunk).rpartition(b"\n\n")
                self._events += parsed(events)
        found = self._events.pop(0)
        self.last_id = found.id
        return found

    async def chunk(self) -> bytes:
        """Return the next part of the body, as the server sent it."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        chunk = (await self._reader.readexactly(size + 2))[:-2]
        self.received += len(chunk)
        return chunk


class Reader:
    """A client in the process of an answer, which waits after each piece until the client reads it.

    Args:
        answer: The answer.
        method: Of the request.
    """

    def __init__(self, answer: ASGIApp, method: str = "GET") -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._read = asyncio.Event()
        self._gone = asyncio.Event()
        self.task = asyncio.ensure_future(answer({"type": "http", "method": method}, self._receive, self._send))

    async def next(self) -> bytes:
        """Return the piece that waits, and let the stream go on."""
        piece = await asyncio.wait_for(self._pieces.get(), ANSWER_S)
        self._read.set()
        return piece

    def go(self) -> None:
        """Disconnect."""
        self._gone.set()

    async def ended(self) -> None:
        """Wait until the answer has ended."""
        await asyncio.wait_for(self.task, ANSWER_S)

    async def close(self) -> None:
        """End the answer."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message.get("body"):
            self._pieces.put_nowait(message["body"])
            await self._read.wait()
            self._read.clear()


def parsed(text: bytes) -> list[ServerEvent]:
    """Return the events of a text. Other lines, such as the time until a client comes back, are left out."""
    events = (dict(line.split(": ", 1) for line in each.split("\n")) for each in text.decode().split("\n\n") if each)
    return [ServerEvent(each["id"], each["event"], json.loads(each["data"])) for each in events if "id" in each]
