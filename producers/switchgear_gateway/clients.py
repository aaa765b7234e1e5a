"""Whether the client of a request still waits for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request

_TURNS: Final = 4
"""Turns of the event loop until the end of a connection, which came with the request's last bytes, is known."""


async def has_gone(request: Request) -> bool:
    """Return whether the client closed its connection before the gateway came to its request.

    Args:
        request: Its body was read to the end.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    return await request.is_disconnected()


@asynccontextmanager
async def leaving(request: Request) -> AsyncIterator[asyncio.Future[None]]:
    """Provide a future that is done when the client closes its connection.

    Args:
        request: Its body was read to the end.
    """
    watching = asyncio.ensure_future(_until_gone(request))
    try:
        yield watching
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
