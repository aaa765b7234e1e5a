"""What a sink without the HTTP API serves: is it alive, is it ready, what has it counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from switchgear_sinks.store import Store


def create_status_app(
    store: Store, *, registry: CollectorRegistry, readiness: Callable[[], Mapping[str, bool]]
) -> Starlette:
    """``/healthz``, ``/readyz`` (503 with the checks while one of them fails) and ``/metrics``."""

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        checks = {"store": await store.ping(), **readiness()}
        ready = all(checks.values())
        return JSONResponse({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
        ]
    )
