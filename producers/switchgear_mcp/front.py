"""The proxy's HTTP side: who may connect, from where, and how many sessions stay open.

The rules are those of the HTTP API: other machines need a token, and a web page can't reach a proxy on its user's machine. A session costs
a process for each server that is a command, so there is a bound on sessions and on the time that they are idle.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from switchgear.runtime.throttled_log import BoundedLog
from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.hosts import KnownHosts, host_name, is_loopback
from switchgear_http.limits import Limits
from switchgear_http.listening import check_listen
from switchgear_http.middleware import AccessControl, principal_of
from switchgear_http.principal import Role
from switchgear_http.problem import ProblemError
from switchgear_mcp.servers import Server, UrlServer
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError

if TYPE_CHECKING:
    from switchgear_mcp.server import ProxyServer

log: Final = logging.getLogger("switchgear.mcp_proxy")
PATH: Final = "/mcp"
MOST_SESSIONS: Final = 32
IDLE_S: Final = 30 * 60.0
_BODY_BYTES: Final = 4 * 1_048_576
"""The SDK's own bound of a request's body."""
_SESSION: Final = b"mcp-session-id"
_BUSY: Final = -32000
"""The JSON-RPC code of an error of the server."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Bounds of the sessions of clients over HTTP.

    Attributes:
        most: How many may be open.
        idle_s: A session without a request and without an open stream ends after this, with its servers' processes.
    """

    most: int = MOST_SESSIONS
    idle_s: float = IDLE_S


class Front:
    """Decides who may use the proxy over HTTP.

    Args:
        address: ``host:port``.
        settings: Tokens, JWTs and limits.
        servers: The servers behind the proxy.
        allowed_hosts: Names by which clients reach a proxy on its own machine, beside ``localhost``.
        sessions: Bounds of the sessions.

    Raises:
        SettingsError: Other machines could reach a proxy without tokens, or a server would get the proxy's own tokens.
    """

    def __init__(
        self,
        address: str,
        settings: AccessSettings,
        servers: Sequence[Server] = (),
        allowed_hosts: Sequence[str] = (),
        sessions: Sessions | None = None,
    ) -> None:
        self.sessions = sessions or Sessions()
        self._authenticator = Authenticator.of(settings)
        check_listen(address, self._authenticator, "--http")
        if self._authenticator.configured:
            _check_forwarding(servers)
        self._hosts = KnownHosts(",".join(allowed_hosts) or None, address, "--allowed-host")
        self._origins = Origins(settings.access_cors_origins)
        self._limits = Limits(
            settings.access_requests_per_token, settings.access_requests_per_address, body_bytes=_BODY_BYTES
        )

    def serving(self, proxy: ProxyServer) -> tuple[Any, AbstractAsyncContextManager[Any]]:
        """Return the ASGI application of a proxy, and the lifespan in which it works."""
        inner: Any = proxy.http_app(path=PATH, host_origin_protection=False, session_idle_timeout=self.sessions.idle_s)
        app = AccessControl(
            _BoundedSessions(inner, self.sessions.most),
            authenticator=self._authenticator,
            hosts=self._hosts,
            role_of=lambda _scope: Role.EMIT,
            limits=self._limits,
            origins=self._origins,
            is_stream=lambda scope: scope["method"] == "GET",
        )
        return _KnownOrigins(app, self._origins), inner.router.lifespan_context(inner)


def _check_forwarding(servers: Sequence[Server]) -> None:
    for server in servers:
        if isinstance(server, UrlServer) and "authorization" in server.forward_headers:
            raise SettingsError(
                f"The server {server.name} would get the tokens of this proxy's own clients in the header Authorization.",
                hint="Take it out of forward_headers, and give the server a header of its own.",
            )


class _KnownOrigins:
    """Refuses the requests of web pages of other hosts: a browser sends some without asking."""

    def __init__(self, app: Any, origins: Origins) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = _Headers(scope)
        origin = headers.get("origin") if scope["type"] == "http" else None
        if origin is None or self._origins.allows(headers) or _is_own(origin, headers.get("host") or ""):  # type: ignore[arg-type]
            await self._app(scope, receive, send)
            return
        hint = "Add the origin to SWITCHGEAR_ACCESS_CORS_ORIGINS if its pages may use the tools."
        await ProblemError(403, f"Pages of {origin[:200]!r} may not use this proxy.", hint).send(send)


class _Headers:
    """The headers of a request, by names in lower case."""

    def __init__(self, scope: Any) -> None:
        self._found = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", ())
        }

    def get(self, name: str) -> str | None:
        return self._found.get(name)


def _is_own(origin: str, host: str) -> bool:
    """Return whether a page is of the host that it asks, or both are of this machine."""
    try:
        page = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    asked = host_name(host) or ""
    same = urlsplit(origin).netloc.lower() == host.strip().lower()
    return bool(page) and (same or (is_loopback(page) and is_loopback(asked)))


class _BoundedSessions:
    """Opens no more sessions than its bound, and binds each one to the credential that opened it."""

    def __init__(self, app: Any, most: int) -> None:
        self._app, self._most = app, most
        self._log = BoundedLog(log)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == PATH:
            manager = next(each.endpoint for each in self._app.routes if each.path == PATH).session_manager
            manager.max_sessions = self._most
            opens = all(name.lower() != _SESSION for name, _ in scope["headers"])
            if opens and len(manager._server_instances) >= self._most:  # noqa: SLF001 - its own answer doesn't say what to do
                self._log.warning(
                    f"{self._most} sessions are open, so new ones are refused. --max-sessions allows more."
                )
                await _refuse(send, self._most)
                return
            # The SDK answers a session's requests only to the user that opened it.
            who = principal_of(scope)
            user = AccessToken(token="", client_id=who.credential or who.name, scopes=[])
            scope = {**scope, "user": AuthenticatedUser(user)}
        await self._app(scope, receive, send)


async def _refuse(send: Any, most: int) -> None:
    """Answer in the form that MCP clients read and show."""
    text = (
        f"This proxy has {most} sessions open, as many as it may. End one, wait until an idle one ends, or start the proxy with a "
        "higher --max-sessions."
    )
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": _BUSY, "message": text}}).encode()
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"60")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
