"""The HTTP server of alerts: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from switchgear_http.connections import Connections
from switchgear_http.probes import metrics_answer
from switchgear_http.server import make_server
from switchgear_http.sockets import listen, own_pid, url_of

_MOST_CONNECTIONS: Final = 64
_STOP_LIMIT_S: Final = 5.0

Health = Callable[[], tuple[bool, bool, str | None]]
"""Returns whether the process is alive, whether it is ready, and what is wrong."""


def create_app(registry: CollectorRegistry, health: Health) -> Starlette:
    """Return the application."""

    async def healthz(_request: Request) -> Response:
        alive, _, problem = health()
        return JSONResponse({"status": "ok" if alive else "failing", "problem": problem}, 200 if alive else 503)

    async def readyz(_request: Request) -> Response:
        _, ready, problem = health()
        body = {"status": "ready" if ready else "not ready", "problem": problem}
        return JSONResponse(body, 200 if ready else 503, own_pid())

    async def metrics(_request: Request) -> Response:
        return metrics_answer(registry)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])


@contextlib.asynccontextmanager
async def serving(address: str, registry: CollectorRegistry, health: Health) -> AsyncIterator[str]:
    """Serve at ``address`` (``host:port``) and yield the URL.

    Raises:
        SettingsError: The address can't be listened on.
    """
    with listen(address, "SWITCHGEAR_ALERTS_HTTP") as listening:
        server = make_server(create_app(registry, health), Connections(max_open=_MOST_CONNECTIONS))
        task = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        try:
            yield url_of(listening)
        finally:
            server.stop()
            _, late = await asyncio.wait([task], timeout=_STOP_LIMIT_S)
            for each in late:
                each.cancel()
            await asyncio.gather(task, return_exceptions=True)
