"""The answers of ``/readyz`` and ``/metrics``, as every server of ours gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from switchgear_http.principal import Principal
from switchgear_http.problem import ProblemError
from switchgear_http.sockets import own_pid

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Their answers never wait for other requests."""


def readiness_answer(checks: Mapping[str, bool]) -> Response:
    """Return 200 if all checks are passed, else 503, with the checks by name and this process's id in the header."""
    ready = all(checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": dict(checks)}
    return JSONResponse(body, 200 if ready else 503, own_pid())


def metrics_answer(registry: CollectorRegistry, principal: Principal | None = None) -> Response:
    """Return the metrics in Prometheus' text format.

    Args:
        registry: The metrics.
        principal: The client; None at a server without access control.

    Raises:
        ProblemError: The client is one tenant's. The metrics count the requests and calls of all.
    """
    if principal is not None and principal.tenant is not None:
        what = "Metrics, which count for all tenants, can't be read with a token of one tenant."
        raise ProblemError(403, what, "Use a token for all tenants.")
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})
