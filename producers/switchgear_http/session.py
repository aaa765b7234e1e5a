"""One session of a browser: what its cookie has, and the check that a request comes from a page of ours."""

from __future__ import annotations

import hmac
from typing import Final, Literal

import msgspec
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError

LONGEST_S: Final = 8 * 3600
IDLE_S: Final = 3600
CSRF_HEADER: Final = "x-csrf-token"
_UNSAFE: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

LoginKind = Literal["token", "oidc"]


class LoginSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the cookie has. Times are seconds since 1970. A login by token has no name and no rights here: the token has them."""

    id: str
    csrf: str
    login: LoginKind
    name: str
    roles: tuple[Role, ...]
    credential: str
    began_at: float
    seen_at: float
    tenant: str | None = None
    tools: tuple[str, ...] = ()

    def principal(self) -> Principal:
        """Return the client."""
        return Principal(self.name, frozenset(self.roles), self.tenant, self.tools, self.credential)

    @property
    def expires_at(self) -> float:
        """When the session ends if nothing more is asked for."""
        return min(self.began_at + LONGEST_S, self.seen_at + IDLE_S)


def check_csrf(session: LoginSession, method: str, headers: Headers) -> None:
    """Check that a request that changes something comes from a page of ours: another site's page can't know the token.

    Raises:
        ProblemError: The token is missing or wrong.
    """
    if method in _UNSAFE and not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
        raise ProblemError(
            403,
            "The header X-CSRF-Token is missing or wrong.",
            "Send csrf of GET /v1/session, or use a bearer token instead of the cookie.",
        )


def session_name(*, secure: bool) -> str:
    """Return the name of the cookie. A browser accepts ``__Host-`` only from this host, over TLS, for all paths."""
    return "__Host-switchgear" if secure else "switchgear_session"


def cookie_of(headers: Headers, name: str) -> str | None:
    """Return a cookie of a request."""
    # Not http.cookies: it drops all cookies of a header if it can't parse one, and another program of this host may have set that one.
    return cookie_parser(headers.get("cookie", "")).get(name)


def set_cookie(name: str, value: str, max_age_s: int, *, secure: bool) -> str:
    """Return the header ``Set-Cookie``. An age of 0 removes the cookie."""
    return f"{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"
