"""The HTTP server of alerts: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from switchgear_schemas.errors import SettingsError
from switchgear_sinks.http_protocol import Connections

_BACKLOG: Final = 64
_MOST_CONNECTIONS: Final = 64
_STOP_LIMIT_S: Final = 3.0

Health = Callable[[], tuple[bool, bool, str | None]]
"""Returns whether the process is alive, whether it is ready, and what is wrong."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: this process has more to stop than a server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def create_app(registry: CollectorRegistry, health: Health) -> Starlette:
    """Return the application."""

    async def healthz(_request: Request) -> Response:
        alive, _, problem = health()
        return JSONResponse({"status": "ok" if alive else "failing", "problem": problem}, 200 if alive else 503)

    async def readyz(_request: Request) -> Response:
        _, ready, problem = health()
        return JSONResponse({"status": "ready" if ready else "not ready", "problem": problem}, 200 if ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])


@contextlib.asynccontextmanager
async def serving(address: str, registry: CollectorRegistry, health: Health) -> AsyncIterator[str]:
    """Serve at ``address`` (``host:port``) and yield the URL.

    Raises:
        SettingsError: The address can't be listened on.
    """
    with _listening(address) as listening:
        server = _Server(
            uvicorn.Config(
                create_app(registry, health),
                http=Connections(max_open=_MOST_CONNECTIONS).protocol,  # type: ignore[arg-type]  # uvicorn calls it
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        host, port = listening.getsockname()[:2]
        try:
            yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        finally:
            server.should_exit = True
            _, late = await asyncio.wait([task], timeout=_STOP_LIMIT_S)
            for each in late:
                each.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host.strip("[]"), int(port)))
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise SettingsError(
            f"Alerts can't listen on {address}: {error.strerror or error}.",
            hint="Set SWITCHGEAR_ALERTS_HTTP to a free host:port (port 0: any).",
        ) from error
    return found
