"""Log in and out with a browser: by a token, or with an OpenID Connect issuer."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from switchgear_api.answers import NotFoundError, json_answer
from switchgear_api.console.page_shapes import SessionAnswer
from switchgear_api.console.records import iso
from switchgear_api.parameters import json_body, query
from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.middleware import SESSION, access_of, is_secure
from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import Handlers, Reply, route
from switchgear_http.session import LoginSession, check_csrf, cookie_of, session_name, set_cookie
from switchgear_http.sessions import Sessions
from switchgear_http.tokens import PREFIX
from switchgear_schemas.settings import Settings

if TYPE_CHECKING:
    from switchgear_http.oidc import OidcLogin  # needs an extra

_PENDING: Final = "switchgear_login"
_NO_STORE: Final = {"cache-control": "no-store"}
_REDIRECTS: Final = {303: Reply("Done.", None)}


class TokenBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a login."""

    token: str


class Login(Handlers):
    """The handlers. They look at the login themselves, so no route needs a role.

    Args:
        settings: ``access_…`` are used.
        sessions: Makes the cookies.

    Raises:
        SettingsError: A setting of the issuer is wrong.
    """

    def __init__(self, settings: Settings, sessions: Sessions) -> None:
        self._sessions = sessions
        self._public_url = settings.access_public_url
        self._tokens = settings.access_tokens_file is not None or settings.access_tokens is not None
        self._oidc: OidcLogin | None = None
        self._callback = ""
        if settings.access_oidc_client_id is not None:
            from switchgear_http.oidc import CALLBACK, OidcLogin  # noqa: PLC0415 - needs an extra

            self._oidc, self._callback = OidcLogin(settings), CALLBACK

    @route("GET", "/v1/session", None)
    async def show(self, request: Request) -> Response:
        """Show who is logged in."""
        try:
            principal = await access_of(request.scope).who(request.scope)
        except ProblemError as problem:
            problem.headers["x-switchgear-login"] = ", ".join(self.ways)
            raise
        return json_answer(self._document(principal, request.scope.get(SESSION)), headers=_NO_STORE)

    @property
    def ways(self) -> list[str]:
        """The ways to log in with a browser: ``token``, ``oidc``."""
        return [*(["token"] if self._tokens else []), *(["oidc"] if self._oidc is not None else [])]

    @route("GET", "/login/oidc", None, query("next"), answers=_REDIRECTS)
    async def begin_oidc(self, request: Request) -> Response:
        """Log in with the OpenID Connect issuer."""
        oidc = self._issuer()
        from switchgear_http.oidc import LOGIN_S, local_path  # noqa: PLC0415 - needs an extra

        try:
            pending = await oidc.begin(self._redirect_uri(request))
        except KeysUnavailableError as error:
            raise ProblemError(503, error.message, error.hint, {"Retry-After": "10"}) from None
        sealed = self._sessions.sealed(
            {
                "state": pending.state,
                "nonce": pending.nonce,
                "verifier": pending.verifier,
                "next": local_path(request.query_params.get("next")),
                "until": time.time() + LOGIN_S,
            }
        )
        answer = RedirectResponse(pending.url, 303, headers=_NO_STORE)
        secure = is_secure(request.scope)
        answer.headers.append("set-cookie", set_cookie(_PENDING, sealed, LOGIN_S, secure=secure))
        return answer

    @route("GET", "/login/oidc/callback", None, answers=_REDIRECTS)
    async def finish_oidc(self, request: Request) -> Response:
        """Take the issuer's answer."""
        oidc, access, secure = self._issuer(), access_of(request.scope), is_secure(request.scope)
        from switchgear_http.oidc import local_path  # noqa: PLC0415 - needs an extra

        text = cookie_of(Headers(scope=request.scope), _PENDING)
        pending = None if text is None else self._sessions.opened(text)
        if pending is None or float(pending.get("until", 0)) < time.time():
            raise ProblemError(400, "No login is under way in this browser, or it took too long.", "Log in again.")
        given = request.query_params
        if not secrets.compare_digest(given.get("state", "").encode(), str(pending["state"]).encode()):
            raise access.failed_login(request.scope, "The answer of the issuer is not of this login.")
        if "code" not in given:
            raise access.failed_login(request.scope, "The issuer refused the login.")
        try:
            principal = await oidc.finish(
                self._redirect_uri(request), given["code"], str(pending["verifier"]), str(pending["nonce"])
            )
        except InvalidCredentialsError as error:
            raise access.failed_login(request.scope, error.message) from None
        except KeysUnavailableError as error:
            raise ProblemError(503, error.message, error.hint, {"Retry-After": "10"}) from None
        if not any(principal.may(role) for role in (Role.READ, Role.OPERATE)):
            raise ProblemError(
                403,
                f"{principal.name} has no role here.",
                "The issuer must send read, operate or admin in the claim that access_jwt_roles_claim names.",
            )
        answer = RedirectResponse(local_path(str(pending["next"])), 303, headers=_NO_STORE)
        self._set_cookie(request, answer, self._sessions.begin(principal, "oidc"))
        answer.headers.append("set-cookie", set_cookie(_PENDING, "", 0, secure=secure))
        return answer

    @route("POST", "/v1/session", None, body=TokenBody)
    async def begin(self, request: Request) -> Response:
        """Log in with a token: the answer sets a cookie."""
        body = await json_body(request, TokenBody, 'Send {"token": "sgt_…"} as application/json.')
        token = body.token.strip()
        if not token.startswith(PREFIX):  # a JWT ends after minutes, and a session must not outlive it
            raise access_of(request.scope).failed_login(request.scope, "This is not a token of Switchgear.")
        principal = await access_of(request.scope).check_token(request.scope, token)
        session = self._sessions.begin(principal, "token")
        answer = json_answer(self._document(principal, session), headers=_NO_STORE)
        self._set_cookie(request, answer, session)
        return answer

    def _set_cookie(self, request: Request, answer: Response, session: LoginSession) -> None:
        secure = is_secure(request.scope)
        before = self._sessions.find(Headers(scope=request.scope), secure=secure)
        if before is not None:
            self._sessions.replace(before)
        answer.headers.append("set-cookie", self._sessions.cookie(session, secure=secure))

    @route("DELETE", "/v1/session", None, answers={204: Reply("Done.", None)})
    async def end(self, request: Request) -> Response:
        """Log out."""
        secure, headers = is_secure(request.scope), Headers(scope=request.scope)
        session = self._sessions.find(headers, secure=secure)
        if session is not None:
            check_csrf(session, request.method, headers)
            self._sessions.end(session)
        answer = Response(status_code=204, headers=_NO_STORE)
        answer.headers.append("set-cookie", set_cookie(session_name(secure=secure), "", 0, secure=secure))
        return answer

    def _document(self, principal: Principal, session: LoginSession | None) -> SessionAnswer:
        held = sorted(role for role in Role if principal.may(role))
        return {
            "name": principal.name,
            "roles": held,
            "tenant": principal.tenant,
            "tools": list(principal.tools),
            "csrf": None if session is None else session.csrf,
            "login": "none" if session is None else session.login,
            "expires_at": None if session is None else iso(datetime.fromtimestamp(session.expires_at, UTC)),
        }

    def _issuer(self) -> OidcLogin:
        if self._oidc is None:
            raise NotFoundError(
                "No issuer is configured.", hint="Log in with a token, or set SWITCHGEAR_ACCESS_OIDC_CLIENT_ID."
            )
        return self._oidc

    def _redirect_uri(self, request: Request) -> str:
        base = self._public_url or f"{request.url.scheme}://{request.url.netloc}"
        return base.rstrip("/") + self._callback
