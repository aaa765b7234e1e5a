"""A request to an application in this process. Of an answer that goes on and on, only the beginning is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.types import ASGIApp, Message

from tests.support.limits import ANSWER_S


class Answered(NamedTuple):
    """An answer."""

    status: int
    body: bytes


async def request(
    app: ASGIApp,
    method: str,
    target: str,
    *,
    token: str | None = None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    pieces: int | None = None,
    address: str = "10.0.0.9",
) -> Answered:
    """Send a request, by default from another machine, and return the answer.

    Args:
        app: The application.
        method: The method.
        target: Path and query.
        token: A bearer token.
        body: The body.
        headers: More headers.
        pieces: Leave after so many pieces of the answer's body. None: wait for its end.
        address: Where it comes from.
    """
    path, _, query = target.partition("?")
    sent = {"host": "gear.example.com", "content-length": str(len(body))} | dict(headers or {})
    if token is not None:
        sent["authorization"] = f"Bearer {token}"
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": (address, 1),
        "server": ("gear.example.com", 80),
        "root_path": "",
    }
    left, asked = asyncio.Event(), False
    status, received = 0, list[bytes]()

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            received.append(message.get("body", b""))
            if pieces is not None and len(received) >= pieces:
                left.set()

    async with asyncio.timeout(ANSWER_S):
        await app(scope, receive, send)
    return Answered(status, b"".join(received))
