"""The answers about a sink's own state: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from switchgear_http.middleware import maybe_principal_of
from switchgear_http.probes import metrics_answer, readiness_answer
from switchgear_sinks.store import Store

_PING_LIMIT_S: Final = 5.0


class Probes:
    """The handlers.

    Args:
        store: Readiness needs its answer.
        registry: The metrics to show.
        readiness: More checks by name. While one is False, ``/readyz`` answers 503.
    """

    def __init__(
        self, store: Store, registry: CollectorRegistry, readiness: Callable[[], Mapping[str, bool]] | None
    ) -> None:
        self._store = store
        self._registry = registry
        self._readiness = readiness or dict

    async def healthz(self, _request: Request) -> Response:
        """Answer 200 while the process serves."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """Answer 200 or 503, with the checks."""
        try:
            answered = await asyncio.wait_for(self._store.ping(), _PING_LIMIT_S)
        except TimeoutError:
            answered = False
        return readiness_answer({"store": answered, **self._readiness()})

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics in Prometheus' text format."""
        return metrics_answer(self._registry, maybe_principal_of(request.scope))


def create_probe_app(probes: Probes) -> Starlette:
    """Return the application of a sink without the HTTP API."""
    return Starlette(
        routes=[
            Route("/healthz", probes.healthz),
            Route("/readyz", probes.readyz),
            Route("/metrics", probes.metrics),
        ]
    )
