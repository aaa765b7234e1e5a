"""The gateway's routes for circuits on a real server, behind the real access control."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import uvicorn

from switchgear_gateway.circuits import CircuitRoutes
from switchgear_http.application import create_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import Limits
from switchgear_http.middleware import AccessControl
from switchgear_http.routing import Routes
from switchgear_http.token_source import TokenSource
from tests.support.limits import ANSWER_S

MOST = 10_000


@contextlib.asynccontextmanager
async def serving(
    routes: CircuitRoutes, tokens: tuple[TokenSource, ...] = (), *, send_buffer: int | None = None
) -> AsyncIterator[int]:
    """Serve the routes while the block runs. Yield the port.

    Args:
        routes: The routes.
        tokens: Without any, only this machine is served.
        send_buffer: Bytes that the system holds for one client.
    """
    declared = Routes(routes.routes)
    app = AccessControl(
        create_application(declared, elsewhere=""),
        authenticator=Authenticator(tokens),
        hosts=KnownHosts(None, "127.0.0.1:0", "x"),
        role_of=declared.role_of,
        limits=Limits(requests_per_token=MOST, requests_per_address=MOST),
        origins=Origins(None),
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=4_096)
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", http="h11", ws="none", backlog=4_096
    )
    server = _Server(config)
    running = asyncio.ensure_future(routes.run())
    serve = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        routes.stop()
        server.should_exit = True
        async with asyncio.timeout(ANSWER_S):
            await serve
        running.cancel()
        await asyncio.wait([running], timeout=ANSWER_S)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):
        yield
