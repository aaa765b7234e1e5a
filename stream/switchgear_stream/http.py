"""The worker's HTTP server: ``/healthz``, ``/readyz`` and ``/metrics``. Faust's own stays off: it serves table data without a login."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

from switchgear_http.application import create_probe_application
from switchgear_http.connections import Connections
from switchgear_http.probes import Probes, State
from switchgear_http.serve import serving
from switchgear_http.sockets import listen
from switchgear_stream.health_monitor import HealthMonitor
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.owner import Owner

log = structlog.get_logger()

_MAX_CONNECTIONS: Final = 64
_REQUEST_S: Final = 10.0
"""A probe or a scrape takes milliseconds."""
_STOP_LIMIT_S: Final = 1.0


def probes_of(owner: Owner, monitor: HealthMonitor, metrics: WorkerMetrics) -> Probes:
    """Return the three routes."""

    def alive() -> State:
        problem = monitor.problem()
        body: dict[str, Any] = {"status": "ok" if problem is None else "failing", "problem": problem}
        if monitor.notice is not None:
            body["notice"] = monitor.notice
        return State(problem is None, body)

    async def ready() -> State:
        body = {"status": "ready" if owner.ready else "recovering", "partitions": sorted(owner.partitions)}
        return State(owner.ready, body)

    return Probes(metrics.registry, ready, alive)


@asynccontextmanager
async def serving_probes(probes: Probes, address: str) -> AsyncIterator[int]:
    """Serve at ``address`` and yield the port.

    Args:
        probes: The three routes.
        address: ``host:port``. With port 0 the system chooses a free one.

    Raises:
        SettingsError: The address can't be listened on.
    """
    connections = Connections(_MAX_CONNECTIONS, request_s=_REQUEST_S, answer_s=_REQUEST_S)
    with listen(address, "SWITCHGEAR_WORKER_HTTP") as listening:
        host, port = listening.getsockname()[:2]
        async with serving(create_probe_application(probes), listening, connections, limit_s=_STOP_LIMIT_S):
            log.info("http", address=f"{host}:{port}")
            yield int(port)
