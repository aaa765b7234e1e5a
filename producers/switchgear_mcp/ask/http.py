"""The server over HTTP: for whoever the API lets in, with the token that comes with each request.

This process has no tokens of its own. It asks the API who a token is, passes it on, and keeps none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.hosts import KnownHosts, host_of, is_loopback
from switchgear_http.limits import Limits
from switchgear_http.middleware import AccessControl, principal_of
from switchgear_http.page_origins import KnownPages
from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_mcp.ask.callers import Callers
from switchgear_mcp.ask.errors import AskError
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError

PATH: Final = "/mcp"
MOST_SESSIONS: Final = 256
IDLE_S: Final = 30 * 60.0
"""A session without a request and without an open stream ends after this."""
_BODY_BYTES: Final = 262_144
_STREAMS: Final = 10
"""Open streams with one token."""
_REFUSED: Final = (401, 403)
_LISTEN: Final = (b"mcp-method", b"subscriptions/listen")


class ApiLogins(Authenticator):
    """Lets in whom the API lets in.

    Args:
        callers: Asks the API.
    """

    def __init__(self, callers: Callers) -> None:
        super().__init__()
        self._callers = callers
        self._needs_token = True

    @property
    def configured(self) -> bool:
        """Whether the API has tokens. If not, only this machine is served."""
        return self._needs_token

    async def refresh(self) -> None:
        """Find out whether the API has tokens.

        Raises:
            AskError: It can't be reached.
        """
        self._needs_token = await self._callers.needs_token()

    async def authenticate(self, credential: str) -> Principal:
        """Return the client that has this token.

        Raises:
            InvalidCredentialsError: The API does not accept it.
            KeysUnavailableError: The API can't be reached.
        """
        try:
            caller = await self._callers.of(credential)
        except AskError as error:
            if error.status in _REFUSED:
                raise InvalidCredentialsError("The API does not accept this token.") from None
            raise KeysUnavailableError("The API of Switchgear does not answer.", hint="Try again.") from None
        roles = frozenset(role for role in Role if role in caller.roles)
        return Principal(caller.name, roles, caller.tenant, caller.tools, f"token {caller.key}")


class HttpSide:
    """The ASGI application, and who may use it.

    Args:
        address: ``host:port``.
        settings: Limits of clients, and origins.
        callers: Asks the API who a token is.
        server: The server.
        allowed_hosts: Names by which clients reach a server on its own machine, beside ``localhost``.
        most_sessions: Sessions that may be open.
    """

    def __init__(
        self,
        address: str,
        settings: AccessSettings,
        callers: Callers,
        server: Server[Any],
        allowed_hosts: Sequence[str] = (),
        *,
        most_sessions: int = MOST_SESSIONS,
    ) -> None:
        self._address = address
        self._logins = ApiLogins(callers)
        self._sessions = StreamableHTTPSessionManager(
            server, session_idle_timeout=IDLE_S, max_sessions=most_sessions, max_request_body_size=_BODY_BYTES
        )
        origins = Origins(settings.access_cors_origins)
        self._app = AccessControl(
            self._serve,
            authenticator=self._logins,
            hosts=KnownHosts(",".join(allowed_hosts) or None, address, "--allowed-host"),
            role_of=lambda _scope: Role.READ,
            limits=Limits(
                settings.access_requests_per_token,
                settings.access_requests_per_address,
                streams_per_token=_STREAMS,
                body_bytes=_BODY_BYTES,
            ),
            origins=origins,
            is_stream=lambda scope: scope["method"] == "GET" or _LISTEN in scope["headers"],
        )
        self.app = KnownPages(self._answer, origins)

    async def check(self) -> None:
        """Check that a server which other machines can reach is before an API with tokens.

        Raises:
            SettingsError: It is not, or the API can't be asked.
        """
        if is_loopback(host_of(self._address)):
            return
        try:
            await self._logins.refresh()
        except AskError as error:
            raise SettingsError(f"Other machines can reach {self._address}. {error.message}") from None
        if not self._logins.configured:
            raise SettingsError(
                f"Other machines can reach {self._address}, and the API has no tokens.",
                hint="Create one with `switchgear token create` for the API, or listen on 127.0.0.1.",
            )

    def running(self) -> AbstractAsyncContextManager[None]:
        """Return the block in which sessions can be open."""
        return self._sessions.run()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            try:
                await self._logins.refresh()
            except AskError as error:
                await ProblemError(503, error.message, "Try again.", {"Retry-After": "5"}).send(send)
                return
        await self._app(scope, receive, send)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] != PATH:
            await ProblemError(404, "There is nothing here.", f"The server is at {PATH}.").send(send)
            return
        # The SDK answers a session's requests only to the user that opened it.
        who = principal_of(scope)
        user = AccessToken(token="", client_id=who.credential or who.name, scopes=[])
        await self._sessions.handle_request({**scope, "user": AuthenticatedUser(user)}, receive, send)


def token_of_request(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the token that came with a request. None: it has none.

    Raises:
        AskError: The message came with no request.
    """
    if ctx.request is None:  # never this process's own token
        raise AskError("The request is gone.")
    scheme, _, token = ctx.request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
