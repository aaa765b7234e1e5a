"""Metrics of the routes of a server."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Meter:
    """Counts requests by route, with the time until their answer begins, and their statuses.

    Args:
        registry: Takes the metrics ``switchgear_<server>_requests_total`` and ``switchgear_<server>_request_seconds``.
        server: ``api`` or ``gateway``.
    """

    def __init__(self, registry: CollectorRegistry, server: str) -> None:
        self._requests = Counter(
            f"switchgear_{server}_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            f"switchgear_{server}_request_seconds", "Time until the answer begins.", ("route",), registry=registry
        )

    def over(self, route: str, app: ASGIApp) -> ASGIApp:
        """Return the application of one route, measured."""
        known: dict[int, tuple[Counter, Histogram]] = {}  # looking up a label takes longer than counting

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            started = time.perf_counter()

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    if status not in known:
                        known[status] = self._requests.labels(route, str(status)), self._seconds.labels(route)
                    count, seconds = known[status]
                    count.inc()
                    seconds.observe(time.perf_counter() - started)
                await send(message)

            await app(scope, receive, sending)

        return measured
