"""The OpenAPI document of the HTTP API."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from switchgear_http.openapi import OpenApi
from switchgear_http.principal import Role
from switchgear_http.routing import Route

_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token, or a JWT of the issuer."},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "switchgear_session"},
    "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token"},
}


def openapi_of(routes: Iterable[Route]) -> OpenApi:
    """Return the document with its route."""
    info = {
        "title": "Switchgear",
        "version": _version(),
        "description": "The HTTP API of Switchgear. Times are ISO 8601 in UTC. Errors are problem details (RFC 9457).",
    }
    return OpenApi(info, Role.READ, routes, schemes=_SCHEMES, security=_security)


def _security(route: Route) -> list[dict[str, Any]]:
    with_cookie = ("cookie",) if route.method == "GET" else ("cookie", "csrf")
    return [{"bearer": []}, {name: [] for name in with_cookie}]


def _version() -> str:
    try:
        return version("switchgear")
    except PackageNotFoundError:
        return "unknown"
