"""``/healthz``, ``/readyz`` and ``/metrics``, as every server of ours has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from switchgear_http.middleware import maybe_principal_of
from switchgear_http.principal import Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import TEXT, Handlers, Reply, route
from switchgear_http.sockets import own_pid


class State(NamedTuple):
    """The answer to a probe.

    Args:
        good: Whether the status is 200. Otherwise it is 503.
        body: What a person reads.
    """

    good: bool
    body: Mapping[str, Any]


_READY: Final = {200: Reply("It is ready."), 503: Reply("It is not ready.")}
_METRICS: Final = {200: Reply("The metrics.", TEXT)}
SERVES: Final = State(good=True, body={"status": "ok"})


def checked(checks: Mapping[str, bool]) -> State:
    """Return that a server is ready if all checks are passed."""
    good = all(checks.values())
    return State(good, {"status": "ready" if good else "not ready", "checks": dict(checks)})


class Probes(Handlers):
    """The three routes. An orchestrator asks the first two without a login, so they say nothing about the data.

    Args:
        registry: The metrics to show.
        ready: Returns the answer of ``/readyz``.
        alive: Returns the answer of ``/healthz``. By default it is 200 while the process serves.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        ready: Callable[[], Awaitable[State]],
        alive: Callable[[], State] = lambda: SERVES,
    ) -> None:
        self._registry = registry
        self._ready = ready
        self._alive = alive

    @route("GET", "/healthz", None)
    async def healthz(self, _request: Request) -> Response:
        """Answer 200 while the process serves."""
        good, body = self._alive()
        return JSONResponse(body, 200 if good else 503)

    @route("GET", "/readyz", None, answers=_READY)
    async def readyz(self, _request: Request) -> Response:
        """Answer 200 when it is ready, else 503."""
        good, body = await self._ready()
        return JSONResponse(body, 200 if good else 503, own_pid())

    @route("GET", "/metrics", Role.READ, answers=_METRICS)
    async def metrics(self, request: Request) -> Response:
        """Show the metrics in Prometheus' format."""
        principal = maybe_principal_of(request.scope)  # None at a server without access control
        if principal is not None and principal.tenant is not None:
            what = "Metrics, which count for all tenants, can't be read with a token of one tenant."
            raise ProblemError(403, what, "Use a token for all tenants.")
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})
