"""The answers of ``/readyz`` and ``/metrics``, as every server of ours gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from switchgear_access.sockets import own_pid

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Their answers never wait for other requests."""


def readiness_answer(checks: Mapping[str, bool]) -> Response:
    """Return 200 if all checks are passed, else 503, with the checks by name and this process's id in the header."""
    ready = all(checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": dict(checks)}
    return JSONResponse(body, 200 if ready else 503, own_pid())


def metrics_answer(registry: CollectorRegistry) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})
