"""ASGI middleware that decides about every request before the application sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from switchgear.runtime.throttled_log import Throttle
from switchgear_http.authenticator import Authenticator
from switchgear_http.body import LimitedBody
from switchgear_http.cors import Origins, answer_preflight, is_preflight, readable
from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.hosts import KnownHosts, is_loopback
from switchgear_http.limits import PROBES, AwaitedBodies, FailedLogins, InProgress, Limits, network_of
from switchgear_http.principal import LOCAL, Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.session import check_csrf

if TYPE_CHECKING:
    from switchgear_http.sessions import Sessions  # needs an extra

log = structlog.get_logger()

RoleOf = Callable[[Scope], Role | tuple[Role, ...] | None]
"""The role that a request needs, or several one of which it needs; None if it needs no login, as a health check."""
_KEY: Final = "switchgear.principal"
_ACCESS: Final = "switchgear.access"
SESSION: Final = "switchgear.session"
"""Where the scope of a request has its :class:`Session`, if it came with a cookie."""
_LOG_EVERY_S: Final = 1.0
_HOW: Final = "Send the header Authorization: Bearer <token>. `switchgear token create` makes a token."
_WEBSOCKET_REFUSED: Final = 1008


class AccessControl:
    """Checks the host name, the login and the role of each request, and limits what one client can take.

    Without a configured login, only clients of this machine are served. They are the principal ``local`` with all roles, and
    the limits by client don't hold for them.

    Args:
        app: The application.
        authenticator: The ways to log in.
        hosts: The names that the server answers to.
        role_of: The role that a request needs.
        limits: Limits of one client.
        origins: Origins whose pages may read answers.
        is_stream: Whether a request stays in progress for as long as its client wants. Such requests have a limit of their own.
        sessions: Sessions of browsers. None: there are none, and cookies are not looked at.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        hosts: KnownHosts,
        role_of: RoleOf,
        limits: Limits,
        origins: Origins,
        is_stream: Callable[[Scope], bool] = lambda _scope: False,
        sessions: Sessions | None = None,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._hosts = hosts
        self._role_of = role_of
        self._limits = limits
        self._origins = origins
        self._is_stream = is_stream
        self._sessions = sessions
        self._by_token = InProgress(limits.requests_per_token, "token")
        self._streams = InProgress(limits.streams_per_token, "token", "streams")
        self._by_address = InProgress(limits.requests_per_address, "address")
        self._awaited = AwaitedBodies(limits.awaited_per_address, limits.awaited)
        self._failed = FailedLogins(limits.failed_logins, limits.login_every_s)
        self._log_throttle = Throttle(_LOG_EVERY_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": _WEBSOCKET_REFUSED})
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        origin = self._origins.allows(headers)
        if self._origins.named:
            send = readable(send, origin)
        with ExitStack() as running:
            try:
                self._hosts.check(headers.get("host", ""))
                if origin is not None and is_preflight(scope, headers):
                    await answer_preflight(send, origin)
                    return
                scope[_ACCESS] = self
                scope[_KEY] = principal = await self._admit(scope, headers, running)
                send = self._renewing(scope, send)
                place = None if principal is not None else partial(self._awaited.waiting, address=_address(scope))
                body = LimitedBody(receive, send, self._limits, _declared(headers), place)
            except ProblemError as problem:
                await problem.send(send)
                return
            try:
                await self._app(scope, body.receive, body.send)
            except Exception:
                if body.refusal is None:  # the application was interrupted by the refusal
                    raise
            finally:
                body.leave()
            await body.finish()

    async def _admit(self, scope: Scope, headers: Headers, running: ExitStack) -> Principal | None:
        """Return the client, and count its request in ``running``. A request that needs no login has none.

        The address is that of the client as the server names it: behind a proxy of this machine (uvicorn's ``FORWARDED_ALLOW_IPS``),
        the one that the proxy forwards.

        Raises:
            ProblemError: The request is refused.
        """
        asked = {**scope, "path": scope["path"].removesuffix("\n")}  # routes let one at the end through
        needed = self._role_of(asked)
        address = _address(scope)
        if needed is None:
            local = not self._authenticator.configured and is_loopback(address)
            if asked["path"] not in PROBES and not local:
                running.enter_context(self._by_address.request(network_of(address)))
            return None
        if not self._authenticator.configured:
            if not is_loopback(address):
                raise ProblemError(
                    403,
                    "Without tokens this server serves its own machine only.",
                    "Create a token with `switchgear token create`, and set SWITCHGEAR_ACCESS_TOKENS_FILE for the server.",
                )
            return LOCAL
        stream = self._is_stream(asked)
        with ExitStack() as logging_in:  # a stream counts until its client is known
            (logging_in if stream else running).enter_context(self._by_address.request(network_of(address)))
            principal = await self._log_in(scope, headers, address)
        roles = (needed,) if isinstance(needed, Role) else needed
        if not any(map(principal.may, roles)):
            held, wanted = ", ".join(sorted(principal.roles)) or "none", " or ".join(roles)
            raise ProblemError(
                403, f"This needs the role {wanted}. The token has: {held}.", f"Use a token with the role {wanted}."
            )
        running.enter_context((self._streams if stream else self._by_token).request(principal.credential))
        return principal

    async def who(self, scope: Scope) -> Principal:
        """Return the client of a request to a path that needs no role.

        Raises:
            ProblemError: It has not logged in.
        """
        address = _address(scope)
        if not self._authenticator.configured:
            if not is_loopback(address):
                raise _unauthorized("Without tokens this server serves its own machine only.")
            return LOCAL
        return await self._log_in(scope, Headers(scope=scope), address)

    async def still_admits(self, scope: Scope) -> bool:
        """Return whether the client of an answer that goes on and on has the same rights as at its beginning."""
        try:
            return principal_of(scope) == await self.who(scope)
        except ProblemError as problem:
            return problem.status == 503  # the issuer's keys can't be read now, which says nothing about the client

    async def check_token(self, scope: Scope, credential: str) -> Principal:
        """Return the client that has this token, and count a failure as a failed login of the address.

        Raises:
            ProblemError: The token gives no access.
        """
        return await self._check(credential, _address(scope))

    def failed_login(self, scope: Scope, why: str) -> ProblemError:
        """Count a failed login of another kind, and return the answer to it."""
        return self._refused(why, _address(scope))

    async def _log_in(self, scope: Scope, headers: Headers, address: str) -> Principal:
        given = headers.getlist("authorization")
        if not given:
            session = None if self._sessions is None else self._sessions.find(headers, secure=is_secure(scope))
            principal = None if session is None else self._authenticator.principal_of(session)
            if session is None or principal is None:
                raise _unauthorized("This server needs a token.")
            check_csrf(session, scope["method"], headers)
            scope[SESSION] = session
            return principal
        scheme, _, credential = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            raise self._refused("The header Authorization is not a bearer token.", address)
        return await self._check(credential.strip(), address)

    def _renewing(self, scope: Scope, send: Send) -> Send:
        """Return a channel that sends the cookie again when it is old, so that the session lasts while it is used."""
        session = scope.get(SESSION)
        sessions = self._sessions
        if session is None or sessions is None or (renewed := sessions.renewed(session)) is None:
            return send
        cookie = sessions.cookie(renewed, secure=is_secure(scope))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "set-cookie" not in headers and sessions.may_renew(session):  # a logout removes it
                    headers.append("set-cookie", cookie)
            await send(message)

        return sending

    async def _check(self, credential: str, address: str) -> Principal:
        try:
            return await self._authenticator.authenticate(credential)
        except InvalidCredentialsError as error:
            raise self._refused(error.message, address) from None
        except KeysUnavailableError as error:
            raise ProblemError(503, error.message, error.hint, {"Retry-After": "10"}) from None

    def _refused(self, why: str, address: str) -> ProblemError:
        wait_s = self._failed.count(address)
        left_out = self._log_throttle.admit("login refused")  # whatever addresses and tokens come
        if left_out is not None:
            log.warning("login refused", address=address, why=why, more=left_out)
        if wait_s:
            return ProblemError(
                429,
                "Too many logins of this address have failed.",
                "Correct the token.",
                {"Retry-After": str(math.ceil(wait_s))},
            )
        return _unauthorized(why, error="invalid_token")


def access_of(scope: Scope) -> AccessControl:
    """Return the middleware that a request has passed.

    Raises:
        KeyError: It has passed none.
    """
    found = scope[_ACCESS]
    if not isinstance(found, AccessControl):
        raise KeyError(_ACCESS)
    return found


def is_secure(scope: Scope) -> bool:
    """Return whether the browser speaks TLS, with this server or with a proxy on its machine."""
    return scope.get("scheme") == "https"


def principal_of(scope: Scope) -> Principal:
    """Return the client of a request that :class:`AccessControl` has let through.

    Raises:
        KeyError: The request has not passed it, or needs no login.
    """
    found = maybe_principal_of(scope)
    if found is None:
        raise KeyError(_KEY)
    return found


def maybe_principal_of(scope: Scope) -> Principal | None:
    """Return the client of a request. None if the request has not passed :class:`AccessControl`, or needs no login."""
    found = scope.get(_KEY)
    return found if isinstance(found, Principal) else None


def _unauthorized(why: str, error: str = "") -> ProblemError:
    challenge = 'Bearer realm="switchgear"' + (f', error="{error}"' if error else "")
    return ProblemError(401, why, _HOW, {"WWW-Authenticate": challenge})


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _declared(headers: Headers) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None
