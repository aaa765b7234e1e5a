"""Who may use the proxy over HTTP, and from where.

The rules are those of the HTTP API: other machines need a token, and a web page can't reach a proxy on its user's machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from switchgear_http.authenticator import Authenticator
from switchgear_http.connections import Connections
from switchgear_http.cors import Origins
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import Limits
from switchgear_http.listening import check_listen, tls_options
from switchgear_http.middleware import AccessControl
from switchgear_http.page_origins import KnownPages
from switchgear_http.principal import Role
from switchgear_http.serve import serving
from switchgear_http.sockets import listen, url_of
from switchgear_mcp.http import PATH, HttpFront
from switchgear_mcp.login import Login, server_of
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.servers import Server, UrlServer
from switchgear_mcp.sessions import Sessions
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import Settings

log: Final = logging.getLogger("switchgear.mcp_proxy")
_STOP_LIMIT_S: Final = 7.0
_MOST_CONNECTIONS: Final = 1024
_BODY_BYTES: Final = 64 * 1_048_576


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
        self._sessions = sessions or Sessions()
        self._address, self._settings = address, settings
        self._authenticator = Authenticator.of(settings)
        check_listen(address, self._authenticator, "--http")
        self.servers = servers
        """The servers, with the headers of clients that they get."""
        self._login: Login | None = None
        if self._authenticator.configured:
            _check_forwarding(servers)
        elif (server := server_of(servers)) is not None:
            self.servers, self._login = [server], Login(server, PATH)
        self._hosts = KnownHosts(",".join(allowed_hosts) or None, address, "--allowed-host")
        self._origins = Origins(settings.access_cors_origins)
        self._limits = Limits(
            settings.access_requests_per_token, settings.access_requests_per_address, body_bytes=_BODY_BYTES
        )

    def app(self, proxy: Proxy) -> tuple[Any, HttpFront]:
        """Return the ASGI application of a proxy, and its sessions, whose ``run`` ends those that are idle."""
        inner = HttpFront(proxy, self._sessions, self._login)
        app = AccessControl(
            inner,
            authenticator=self._authenticator,
            hosts=self._hosts,
            role_of=lambda _scope: Role.EMIT,
            limits=self._limits,
            origins=self._origins,
            is_stream=lambda scope: scope["method"] == "GET",
        )
        return KnownPages(app, self._origins), inner

    async def serve(self, proxy: Proxy) -> None:
        """Serve any number of clients over streamable HTTP."""
        assert isinstance(self._settings, Settings)
        tls = tls_options(self._settings)
        app, sessions = self.app(proxy)
        with listen(self._address, "--http") as listening:
            connections = Connections(max_open=_MOST_CONNECTIONS)
            log.warning("The proxy serves %s%s.", url_of(listening, "https" if tls else "http"), PATH)
            ending = asyncio.ensure_future(sessions.run())
            try:
                async with serving(app, listening, connections, tls=tls, limit_s=_STOP_LIMIT_S) as http:
                    await asyncio.shield(http)
            finally:
                ending.cancel()


def _check_forwarding(servers: Sequence[Server]) -> None:
    for server in servers:
        if isinstance(server, UrlServer) and "authorization" in server.forward_headers:
            raise SettingsError(
                f"The server {server.name} would get the tokens of this proxy's own clients in the header Authorization.",
                hint="Take it out of forward_headers, and give the server a header of its own.",
            )
