"""The ASGI application of the HTTP API: routes, errors and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware

from switchgear_api.answers import problem_of
from switchgear_api.console.console import Console
from switchgear_api.console.login import Login
from switchgear_api.console.pages import ConsolePages
from switchgear_api.openapi import openapi_of
from switchgear_api.probes import probes_of
from switchgear_api.reads import Reads
from switchgear_api.retention import RetentionRoutes
from switchgear_api.sql import SqlRoute
from switchgear_http.application import access_to, create_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.headers import SecurityHeaders
from switchgear_http.hosts import KnownHosts
from switchgear_http.meter import Meter
from switchgear_http.principal import Role
from switchgear_http.routing import Routes
from switchgear_http.sessions import Sessions
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store


def create_app(
    store: Store,
    settings: Settings,
    *,
    registry: CollectorRegistry,
    readiness: Callable[[], Mapping[str, bool]] | None = None,
    authenticator: Authenticator | None = None,
    console: Console | None = None,
    sessions: Sessions | None = None,
) -> Starlette:
    """Return the application. It does not own ``store``: close the store after the server has stopped.

    Args:
        store: The store to read.
        settings: ``sql_…``, ``api_…`` and ``access_…`` are used.
        registry: The metrics that ``/metrics`` shows. The API adds its own.
        readiness: More checks by name. ``/readyz`` answers 503 while one is False or the store does not answer.
        authenticator: The ways to log in; by default those of the settings.
        console: The console, which the caller runs; by default one that reads from the store only and has no live events.
        sessions: Sessions of browsers; by default those of the settings.

    Raises:
        SettingsError: The tokens can't be read, or a setting of the access is wrong.
    """
    console = console or Console(store, settings, follow=False)
    secret = settings.access_session_secret
    sessions = sessions or Sessions(None if secret is None else secret.get_secret_value())
    declared = [
        *console.routes,
        *Login(settings, sessions).routes,
        *Reads(store, settings, console.components, console.fleet.limited).routes,
        *SqlRoute(store, settings).routes,
        *RetentionRoutes(store, settings).routes,
        *probes_of(store, registry, readiness).routes,
    ]
    routes = Routes([*declared, openapi_of(declared).route], guarded="/v1/", unknown=(Role.READ,))
    return create_application(
        routes,
        pages=ConsolePages().routes,
        elsewhere="Try /v1/tools, /v1/circuits, /v1/slow, /v1/errors.",
        meter=Meter(registry, "api"),
        problem_of=problem_of,
        middleware=[
            Middleware(SecurityHeaders),
            access_to(
                routes,
                settings,
                authenticator=authenticator or Authenticator.of(settings),
                hosts=KnownHosts(settings.api_allowed_hosts, settings.api_http, "SWITCHGEAR_API_ALLOWED_HOSTS"),
                streams_per_token=settings.api_streams_per_token,
                sessions=sessions,
            ),
        ],
    )
