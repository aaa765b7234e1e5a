"""The ASGI application of a server: its routes, measured, and one answer to everything that goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.routing import request_response

from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import BODY_BYTES, Limits
from switchgear_http.meter import Meter
from switchgear_http.middleware import AccessControl
from switchgear_http.probes import Probes
from switchgear_http.problem import MEDIA_TYPE, ProblemError
from switchgear_http.routing import Handler, Routes
from switchgear_schemas.access_settings import AccessSettings

if TYPE_CHECKING:
    from switchgear_http.sessions import Sessions  # needs an extra

log = structlog.get_logger()

ProblemOf = Callable[[Exception], ProblemError | None]
"""Returns the answer to an error of a handler. None: it is a defect, which is logged and answered with 500."""
_MOST_OF_PATH: Final = 200


def create_application(
    routes: Routes,
    *,
    elsewhere: str,
    pages: Sequence[StarletteRoute] = (),
    meter: Meter | None = None,
    problem_of: ProblemOf = lambda error: error if isinstance(error, ProblemError) else None,
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """Return the application.

    Args:
        routes: The routes.
        elsewhere: The hint of an answer 404: where to look.
        pages: More routes, which have no declaration and are not measured.
        meter: Measures the routes. None: nothing does.
        problem_of: Answers to the errors that handlers raise. It may also complete the answers 404, 405 and 500 of the application itself.
        middleware: What every request passes, the outermost first.
    """

    async def answer(request: Request, error: Exception) -> Response:
        known = _of_routing(request, error, elsewhere) if isinstance(error, HTTPException) else error
        found = problem_of(known)
        if found is None:
            log.error("a request failed", path=request.url.path, exc_info=error)
            failed = ProblemError(
                500, "The request failed for an unexpected reason.", "The server's log has the details."
            )
            found = problem_of(failed) or failed
        return Response(found.body, found.status, found.headers, MEDIA_TYPE)

    served = routes.served()
    for route in (*served, *pages):
        route.app = request_response(_answering(route.endpoint, answer))
    if meter is not None:
        for route in served:
            route.app = meter.over(route.path, route.app)
    # Starlette raises what it handles as Exception once more after the answer, so the routes answer to all errors themselves.
    return Starlette(routes=[*served, *pages], exception_handlers={HTTPException: answer}, middleware=list(middleware))


def access_to(
    routes: Routes,
    settings: AccessSettings,
    *,
    authenticator: Authenticator,
    hosts: KnownHosts,
    streams_per_token: int,
    body_bytes: int = BODY_BYTES,
    sessions: Sessions | None = None,
) -> Middleware:
    """Return what lets a request through to its route, as the settings of all servers say. For the arguments, see ``AccessControl`` and ``Limits``."""
    limits = Limits(
        settings.access_requests_per_token,
        settings.access_requests_per_address,
        body_bytes=body_bytes,
        streams_per_token=streams_per_token,
    )
    return Middleware(
        AccessControl,
        authenticator=authenticator,
        hosts=hosts,
        role_of=routes.role_of,
        limits=limits,
        origins=Origins(settings.access_cors_origins),
        is_stream=routes.is_stream,
        sessions=sessions,
    )


def create_probe_application(probes: Probes) -> Starlette:
    """Return the application of a process that serves nothing but its probes."""
    return create_application(Routes(probes.routes), elsewhere="Try /healthz, /readyz, /metrics.")


def _answering(handler: Handler, answer: Callable[[Request, Exception], Awaitable[Response]]) -> Handler:
    """Return a handler that never fails."""

    async def answering(request: Request) -> Any:
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - the outermost handler: every error becomes an answer, and a defect is logged
            return await answer(request, error)

    return answering


def _of_routing(request: Request, error: HTTPException, elsewhere: str) -> ProblemError:
    path = request.url.path[:_MOST_OF_PATH]
    if error.status_code == 404:
        return ProblemError(404, f"There is nothing at {path}.", elsewhere)
    if error.status_code == 405:
        allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        return ProblemError(405, f"{request.method} is not possible at {path}.", f"Use {allowed}.", {"Allow": allowed})
    return ProblemError(error.status_code, str(error.detail), headers=error.headers)
