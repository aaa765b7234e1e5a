"""The worker's own HTTP: ``/healthz``, ``/readyz`` and ``/metrics``. Faust's web server stays off: it serves table data to anybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from switchgear_schemas import SettingsError
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner
from switchgear_stream.watch import Watch

log = structlog.get_logger()


def build_http(owner: Owner, watch: Watch, metrics: WorkerMetrics) -> web.Application:
    """The three routes."""

    async def healthz(_: web.Request) -> web.Response:
        problem = watch.problem()
        body = {"status": "ok" if problem is None else "failing", "problem": problem}
        return web.json_response(body, status=200 if problem is None else 503)

    async def readyz(_: web.Request) -> web.Response:
        body = {"status": "ready" if owner.ready else "recovering", "partitions": sorted(owner.partitions)}
        return web.json_response(body, status=200 if owner.ready else 503)

    async def prometheus(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", prometheus)])
    return app


@asynccontextmanager
async def serving(app: web.Application, address: str) -> AsyncIterator[int]:
    """Serve ``app`` at ``host:port`` (port 0: any free one); yields the port.

    Raises:
        SettingsError: the address can't be listened on.
    """
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]"), int(port))
        try:
            await site.start()
        except OSError as error:
            raise SettingsError(
                f"The worker can't listen on {address}: {error.strerror or error}.",
                hint="Set SWITCHGEAR_WORKER_HTTP to a free host:port (port 0: any).",
            ) from error
        bound: int = runner.addresses[0][1]
        log.info("http", address=f"{host}:{bound}")
        yield bound
    finally:
        await runner.cleanup()
