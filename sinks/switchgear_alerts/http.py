"""The HTTP server of alerts: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from switchgear_http.application import create_probe_application
from switchgear_http.connections import Connections
from switchgear_http.probes import Probes, State
from switchgear_http.server import Server, make_server

_MOST_CONNECTIONS: Final = 64

Health = Callable[[], tuple[bool, bool, str | None]]
"""Returns whether the process is alive, whether it is ready, and what is wrong."""


def create_server(registry: CollectorRegistry, health: Health) -> Server:
    """Return the server."""

    def alive() -> State:
        good, _, problem = health()
        return State(good, {"status": "ok" if good else "failing", "problem": problem})

    async def ready() -> State:
        _, good, problem = health()
        return State(good, {"status": "ready" if good else "not ready", "problem": problem})

    app = create_probe_application(Probes(registry, ready, alive))
    return make_server(app, Connections(max_open=_MOST_CONNECTIONS))
