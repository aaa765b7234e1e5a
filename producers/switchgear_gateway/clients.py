"""Whether the client of a request still waits for its answer."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request

_TURNS: Final = 4
"""Turns of the event loop until the end of a connection, which came with the request's last bytes, is known."""


class Leaving:
    """Notices when the client of a request closes its connection. Call :meth:`stop` at the end of the request.

    Args:
        request: Its body was read to the end.
    """

    def __init__(self, request: Request) -> None:
        self.gone: asyncio.Future[None] = asyncio.ensure_future(_until_gone(request))
        """Done when the connection is closed."""

    async def already(self) -> bool:
        """Return whether the client closed its connection before the gateway came to its request."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return self.gone.done()

    def stop(self) -> None:
        """End."""
        self.gone.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
