"""Metrics of the routes."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Meter:
    """Counts requests by route, with the time until their answer begins, and their statuses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "switchgear_gateway_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "switchgear_gateway_request_seconds", "Time until the answer begins.", ("route",), registry=registry
        )

    def over(self, route: str, app: ASGIApp) -> ASGIApp:
        """Return the application of one route, measured."""
        seconds = self._seconds.labels(route)
        counts: dict[int, Counter] = {}  # looking up a label takes longer than counting

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            started = time.perf_counter()

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    count = counts.get(status)
                    if count is None:
                        count = counts[status] = self._requests.labels(route, str(status))
                    count.inc()
                    seconds.observe(time.perf_counter() - started)
                await send(message)

            await app(scope, receive, sending)

        return measured
