"""The ASGI application of the HTTP API: routes, errors and metrics."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from switchgear_http.application import create_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.headers import SecurityHeaders
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import Limits
from switchgear_http.meter import Meter
from switchgear_http.middleware import AccessControl
from switchgear_http.principal import Role
from switchgear_http.sessions import Sessions
from switchgear_schemas.settings import Settings
from switchgear_sinks.api.answers import problem_of
from switchgear_sinks.api.console.console import Console
from switchgear_sinks.api.console.login import Login
from switchgear_sinks.api.openapi import openapi
from switchgear_sinks.api.reads import Reads
from switchgear_sinks.api.retention import RetentionRoute
from switchgear_sinks.api.sql import SqlRoute
from switchgear_sinks.console import ConsolePages
from switchgear_sinks.probes import probes_of
from switchgear_sinks.store import Store

_STREAM: Final = "/v1/console/live"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_QUESTIONS: Final = frozenset({("POST", "/v1/sql"), ("POST", "/v1/policies/replay")})
"""Requests with a body that change nothing."""
Handler = Callable[[Request], Awaitable[Response]]
_PUBLIC: Final = frozenset({"/v1/session"})
"""The handler looks at the login itself."""
_GUARDED: Final = ("/v1/", "/metrics", "/openapi.json")
"""All others are health checks, the console's pages and the login, which have no data."""


class _Route(Route):
    """A route in whose path the name of a tool may have line feeds. Starlette's names end there, and ignore one at the end."""

    def __init__(self, path: str, handler: Handler, methods: list[str]) -> None:
        super().__init__(path, handler, methods=methods)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)


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
    login = Login(settings, sessions)
    reads = Reads(store, settings, console.components)
    handlers: tuple[tuple[str, Handler, str], ...] = (
        *console.routes,
        ("/v1/session", login.session, "GET POST DELETE"),
        ("/login/oidc", login.begin_oidc, "GET"),
        ("/login/oidc/callback", login.finish_oidc, "GET"),
        ("/v1/tools", reads.tools, "GET"),
        ("/v1/tools/{name:path}", reads.tool, "GET"),
        ("/v1/circuits", reads.circuits, "GET"),
        ("/v1/circuits/{circuit_id:path}/history", reads.circuit_history, "GET"),
        ("/v1/circuits/{circuit_id:path}", reads.circuit, "GET"),
        ("/v1/slow", reads.slow, "GET"),
        ("/v1/errors", reads.errors, "GET"),
        ("/v1/stored", reads.stored, "GET"),
        ("/v1/emitters", reads.emitters, "GET"),
        ("/v1/sql", SqlRoute(store, settings), "POST"),
        ("/v1/retention", RetentionRoute(store, settings), "GET PUT DELETE"),
        ("/openapi.json", openapi, "GET"),
    )
    routes = (_Route(path, handler, methods.split()) for path, handler, methods in handlers)
    return create_application(
        [*routes, *probes_of(store, registry, readiness).routes],
        pages=ConsolePages().routes,
        elsewhere="Try /v1/tools, /v1/circuits, /v1/slow, /v1/errors.",
        meter=Meter(registry, "api"),
        problem_of=problem_of,
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(
                AccessControl,
                authenticator=authenticator or Authenticator.of(settings),
                hosts=KnownHosts(settings.api_allowed_hosts, settings.api_http, "SWITCHGEAR_API_ALLOWED_HOSTS"),
                role_of=role_of,
                limits=Limits(
                    settings.access_requests_per_token,
                    settings.access_requests_per_address,
                    streams_per_token=settings.api_streams_per_token,
                ),
                origins=Origins(settings.access_cors_origins),
                is_stream=lambda scope: scope["path"] == _STREAM,
                sessions=sessions,
            ),
        ],
    )


def role_of(scope: Scope) -> Role | None:
    """Return the role that a request needs."""
    path, method = scope["path"], scope["method"]
    if path in _PUBLIC or not path.startswith(_GUARDED):
        return None
    if path == "/v1/retention" and method in {"PUT", "DELETE"}:
        return Role.ADMIN
    if method not in _READING and (method, path) not in _QUESTIONS:
        return Role.OPERATE
    return Role.READ
