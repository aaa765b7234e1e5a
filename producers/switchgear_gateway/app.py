"""The ASGI application of the gateway: its parts, its access, its errors and its metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from switchgear_gateway.bodies import MAX_BODY_BYTES
from switchgear_gateway.openapi import openapi_of
from switchgear_gateway.parts import Part
from switchgear_http.application import access_to, create_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.hosts import KnownHosts
from switchgear_http.meter import Meter
from switchgear_http.routing import Routes
from switchgear_schemas.settings import Settings


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
    declared = [route for part in parts for route in part.routes]
    routes = Routes([*declared, openapi_of(declared).route])
    return create_application(
        routes,
        elsewhere="/openapi.json lists the routes.",
        meter=Meter(registry, "gateway"),
        middleware=[
            access_to(
                routes,
                settings,
                authenticator=authenticator,
                hosts=KnownHosts(
                    settings.gateway_allowed_hosts, settings.gateway_http, "SWITCHGEAR_GATEWAY_ALLOWED_HOSTS"
                ),
                streams_per_token=settings.gateway_streams_per_token,
                body_bytes=MAX_BODY_BYTES,
            )
        ],
    )
