"""Refuse the requests of web pages of other hosts: a browser sends some without asking."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from switchgear_http.cors import Origins
from switchgear_http.hosts import host_name, is_loopback
from switchgear_http.problem import ProblemError


class KnownPages:
    """Passes on what comes from no page, from a page of the same host, or from an origin that is listed.

    Args:
        app: The application.
        origins: The origins whose pages may use it.
    """

    def __init__(self, app: ASGIApp, origins: Origins) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = headers.get("origin")
        if origin is None or self._origins.allows(headers) or _is_own(origin, headers.get("host", "")):
            await self._app(scope, receive, send)
            return
        hint = "Add the origin to SWITCHGEAR_ACCESS_CORS_ORIGINS if its pages may use this server."
        await ProblemError(403, f"Pages of {origin[:200]!r} may not use this server.", hint).send(send)


def _is_own(origin: str, host: str) -> bool:
    """Return whether a page is of the host that it asks, or both are of this machine."""
    try:
        page, place = urlsplit(origin).hostname or "", urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    asked = host_name(host) or ""
    return bool(page) and (place == host.strip().lower() or (is_loopback(page) and is_loopback(asked)))
