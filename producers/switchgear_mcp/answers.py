"""The answers of a server at an address, with a bound on what one message costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

from switchgear_mcp.message_size import Body, sentence

HEADERS: Final = {"accept-encoding": "identity"}
"""A compressed answer can be a thousand times its size."""
_EVENTS: Final = "text/event-stream"


def bound(response: httpx2.Response, server: str, most: int) -> None:
    """Let a response end with an error when a message in it costs more than ``most``.

    Args:
        response: A response whose body is not read yet.
        server: The server's name, for the error.
        most: The most that one message may cost.
    """
    events = response.headers.get("content-type", "").partition(";")[0].strip().lower() == _EVENTS
    encoding = response.headers.get("content-encoding", "").strip().lower()
    refusal = (
        f"The server {server} answered in {encoding[:40]!r}, though the proxy asked for no compression."
        if encoding not in {"", "identity"}
        else ""
    )
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(
        response.stream, Body(most, events=events), refusal, sentence(server, most), events=events
    )


class _Bounded(httpx2.AsyncByteStream):
    """Passes a body on, up to its bound."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, body: Body, refusal: str, too_large: str, *, events: bool
    ) -> None:
        self._inner, self._body, self._refusal, self._too_large = inner, body, refusal, too_large
        # The SDK makes an error of the request from one of these.
        self._error = httpx2.SSEError if events else httpx2.StreamError

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._refusal:
            raise self._error(self._refusal)
        async for piece in self._inner:
            if not self._body.add(piece):
                raise self._error(self._too_large)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
