"""One request of HTTP to the proxy, and its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from switchgear_http.middleware import principal_of
from switchgear_mcp import message as rpc
from switchgear_mcp.http_side import Stream
from switchgear_mcp.message import Message, parsed
from switchgear_mcp.protocol import EVENT_STREAM

JSON: Final = (b"content-type", b"application/json")
_BUSY: Final = -32000


class Request:
    """One request of HTTP, and its answer."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.origin = f"{scope.get('scheme', 'http')}://{self.headers.get('host', '')}"
        """The scheme and the host by which the client reaches the proxy."""
        self.principal = principal_of(scope)
        self.who = self.principal.credential or self.principal.name

    async def body(self) -> bytes:
        """Return the whole body."""
        pieces: list[bytes] = []
        while True:
            part = await self._receive()
            if part["type"] == "http.disconnect":
                return b""
            pieces.append(part.get("body", b""))
            if not part.get("more_body"):
                return b"".join(pieces)

    async def message(self) -> Message | None:
        """Return the message in the body. None if there is none: then the request is answered."""
        accept = self.headers.get("accept", "")
        if not ("*/*" in accept or ("application/json" in accept and EVENT_STREAM in accept)):
            text = "Not Acceptable: Client must accept both application/json and text/event-stream"
            await self.error(406, rpc.INVALID_REQUEST, text)
            return None
        try:
            found = parsed(await self.body())
        except ValueError as error:
            await self.error(400, -32700, f"Parse error: {error}"[:300])
            return None
        if len(found) != 1:
            await self.error(400, rpc.INVALID_REQUEST, "Batches are not supported.")
            return None
        return found[0]

    async def close_when_gone(self, stream: Stream) -> None:
        """Close a stream when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        stream.close()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin an answer."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, body: bytes, *, end: bool = False) -> None:
        """Send a part of the answer's body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not end})

    async def answer(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Send a whole answer."""
        length = (b"content-length", str(len(body)).encode())
        await self.start(status, [*(headers or []), length])
        await self.more(body, end=True)

    async def error(self, status: int, code: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Answer in the form that MCP clients read and show."""
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}).encode()
        await self.answer(status, body, [JSON, *(headers or [])])

    async def no_session(self, number: str | None) -> None:
        """Answer a request whose session isn't open."""
        if number is None:
            await self.error(400, rpc.INVALID_REQUEST, "Bad Request: Missing session ID")
        else:
            await self.error(404, rpc.INVALID_REQUEST, "Session not found")

    async def busy(self, most: int) -> None:
        """Answer a client that has no session here."""
        text = (
            f"This proxy has {most} sessions open, as many as it may. End one, wait until an idle one ends, or start the proxy with a "
            "higher --max-sessions."
        )
        await self.error(503, _BUSY, text, [(b"retry-after", b"60")])
