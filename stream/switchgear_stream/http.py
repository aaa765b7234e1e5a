"""The worker's HTTP server: ``/healthz``, ``/readyz`` and ``/metrics``. Faust's own stays off: it serves table data without a login."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from switchgear_http.sockets import listen, own_pid
from switchgear_stream.health_monitor import HealthMonitor
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner

log = structlog.get_logger()

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
MAX_CONNECTIONS: Final = 64
CONNECTION_S: Final = 10.0
_MAX_LINE: Final = 8190
"""Bytes of a header line, and of the request line."""
_MAX_HEADERS: Final = 64


def _server_log() -> logging.Logger:
    """Return aiohttp's logger without malformed requests. aiohttp writes a traceback for each, so a client could fill the disk."""
    logger = logging.getLogger("switchgear_stream.http")
    logger.addFilter(_is_server_error)
    return logger


def _is_server_error(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


class BoundedServer(web.Server):
    """aiohttp's server with a limit on connections and on the life of each.

    aiohttp limits the size of a header and the time between requests. It limits neither the time that a header or a body takes, nor
    the number of connections.

    Args:
        handler: Answers a request.
        most: Connections at once. One more ends the oldest.
        life_s: Longest life of a connection, in seconds. A probe or a scrape takes milliseconds.
    """

    def __init__(self, handler: Handler, most: int, life_s: float) -> None:
        super().__init__(
            handler,
            access_log=None,
            logger=_server_log(),
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            max_headers=_MAX_HEADERS,
        )
        self._most = most
        self._life_s = life_s
        self._open: dict[RequestHandler, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Limit the connection's life. If there are too many connections, end the oldest."""
        super().connection_made(handler, transport)
        self._open[handler] = transport, asyncio.get_running_loop().call_later(self._life_s, transport.abort)
        if len(self._open) > self._most:
            oldest = next(iter(self._open))
            self._forget(oldest).abort()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget the connection."""
        super().connection_lost(handler, exc)
        if handler in self._open:
            self._forget(handler)

    def _forget(self, handler: RequestHandler) -> asyncio.Transport:
        transport, end = self._open.pop(handler)
        end.cancel()
        return transport


def build_http(owner: Owner, monitor: HealthMonitor, metrics: WorkerMetrics) -> Handler:
    """Return a handler for the three routes. Each answer closes its connection. The body of a request is not read."""

    def healthz() -> web.Response:
        problem = monitor.problem()
        body = {"status": "ok" if problem is None else "failing", "problem": problem}
        if monitor.notice is not None:
            body["notice"] = monitor.notice
        return web.json_response(body, status=200 if problem is None else 503)

    def readyz() -> web.Response:
        body = {"status": "ready" if owner.ready else "recovering", "partitions": sorted(owner.partitions)}
        if monitor.waits_for is not None:
            body |= {"status": "waiting", "reason": monitor.waits_for}
        return web.json_response(body, status=200 if owner.ready else 503, headers=own_pid())

    def prometheus() -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": prometheus}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        route = routes.get(request.path)
        if route is None:
            answer = web.Response(text="There is nothing here. Try /healthz, /readyz, /metrics.\n", status=404)
        elif request.method not in {"GET", "HEAD"}:
            answer = web.Response(text="Use GET.\n", status=405, headers={"Allow": "GET, HEAD"})
        else:
            answer = route()
        answer.force_close()
        return answer

    return handle


@asynccontextmanager
async def serving(
    handler: Handler, address: str, *, most: int = MAX_CONNECTIONS, life_s: float = CONNECTION_S
) -> AsyncIterator[int]:
    """Serve at ``address`` and yield the port.

    Args:
        handler: Answers a request.
        address: ``host:port``. With port 0 the system chooses a free one.
        most: Connections at once. One more ends the oldest.
        life_s: Longest life of a connection, in seconds.

    Raises:
        SettingsError: The address can't be listened on.
    """
    with listen(address, "SWITCHGEAR_WORKER_HTTP") as listening:
        runner = web.ServerRunner(BoundedServer(handler, most, life_s), shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            host, port = listening.getsockname()[:2]
            log.info("http", address=f"{host}:{port}")
            yield int(port)
        finally:
            await runner.cleanup()
