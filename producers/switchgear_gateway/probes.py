"""The answers about the gateway's own state: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from switchgear_http.middleware import maybe_principal_of
from switchgear_http.probes import metrics_answer, readiness_answer

_STATE: Final = {"application/json": {"schema": {"type": "object"}}}


class ProbeRoutes:
    """The routes.

    Args:
        registry: The metrics to show.
        readiness: Checks by name. While one is False, ``/readyz`` answers 503.
    """

    def __init__(self, registry: CollectorRegistry, readiness: Callable[[], Mapping[str, bool]]) -> None:
        self._registry = registry
        self._readiness = readiness
        self.routes = [
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
        ]

    @property
    def openapi(self) -> Mapping[str, Mapping[str, Any]]:
        """OpenAPI's path items."""

        def item(summary: str, answers: Mapping[str, Any]) -> dict[str, Any]:
            return {"get": {"summary": summary, "responses": dict(answers)}}

        ready = {"description": "Ready.", "content": _STATE}
        return {
            "/healthz": item("Whether the process serves.", {"200": {"description": "It does.", "content": _STATE}}),
            "/readyz": item(
                "Whether Kafka answers and the circuits are followed.",
                {"200": ready, "503": {"description": "Not ready.", "content": _STATE}},
            ),
            "/metrics": item(
                "Metrics in Prometheus' format.",
                {"200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
            ),
        }

    async def healthz(self, _request: Request) -> Response:
        """Answer 200 while the process serves."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """Answer 200 or 503, with the checks."""
        return readiness_answer(self._readiness())

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics in Prometheus' text format."""
        return metrics_answer(self._registry, maybe_principal_of(request.scope))
