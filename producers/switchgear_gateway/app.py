"""The ASGI application of the gateway: its parts, its access, its errors and its metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Scope

from switchgear_gateway.bodies import MAX_BODY_BYTES
from switchgear_gateway.openapi import OpenApiRoute
from switchgear_gateway.parts import Part
from switchgear_http.application import create_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import Limits
from switchgear_http.meter import Meter
from switchgear_http.middleware import AccessControl
from switchgear_http.principal import Role
from switchgear_schemas.settings import Settings

_ROLES: Final[dict[str, tuple[Role, ...]]] = {
    "/v1/executions": (Role.EMIT,),
    "/v1/decide": (Role.EMIT,),
    "/v1/outcome": (Role.EMIT,),
    "/v1/hooks/claude-code": (Role.EMIT,),
    "/v1/traces": (Role.EMIT,),
    "/v1/logs": (Role.EMIT,),
    "/v1/sources": (Role.READ, Role.EMIT),
    "/v1/circuits": (Role.READ, Role.EMIT),  # who emits enforces, too
    "/v1/circuits/stream": (Role.READ, Role.EMIT),
    "/metrics": (Role.READ,),
    "/openapi.json": (Role.READ, Role.EMIT),
}
_PUBLIC: Final = frozenset({"/healthz", "/readyz"})
"""An orchestrator asks these, and they say nothing about the data."""
_STREAMS: Final = frozenset({"/v1/circuits/stream"})


def create_app(
    parts: Iterable[Part], settings: Settings, *, registry: CollectorRegistry, authenticator: Authenticator
) -> Starlette:
    """Return the application.

    Args:
        parts: The routes. :func:`switchgear_gateway.service.parts_of` lists them.
        settings: ``gateway_http``, ``gateway_allowed_hosts`` and ``access_…`` are used.
        registry: The metrics of the process. The application adds its own.
        authenticator: The ways to log in.
    """
    parts = list(parts)
    routes = [route for part in (*parts, OpenApiRoute(parts)) for route in part.routes]
    return create_application(
        routes,
        elsewhere="/openapi.json lists the routes.",
        meter=Meter(registry, "gateway"),
        middleware=[
            Middleware(
                AccessControl,
                authenticator=authenticator,
                hosts=KnownHosts(
                    settings.gateway_allowed_hosts, settings.gateway_http, "SWITCHGEAR_GATEWAY_ALLOWED_HOSTS"
                ),
                role_of=role_of,
                limits=Limits(
                    settings.access_requests_per_token,
                    settings.access_requests_per_address,
                    body_bytes=MAX_BODY_BYTES,
                    streams_per_token=settings.gateway_streams_per_token,
                ),
                origins=Origins(settings.access_cors_origins),
                is_stream=is_stream,
            )
        ],
    )


def role_of(scope: Scope) -> tuple[Role, ...] | None:
    """Return the roles one of which a request needs. A path that doesn't exist needs any login."""
    return None if scope["path"] in _PUBLIC else _ROLES.get(scope["path"], (Role.READ, Role.EMIT))


def is_stream(scope: Scope) -> bool:
    """Return whether the request stays in progress for as long as its client wants."""
    return scope["path"] in _STREAMS
