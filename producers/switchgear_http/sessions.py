"""Sessions of browsers, in a signed cookie.

The cookie has the client's rights, or the id of its token, so any process with the same secret can check it. Every login makes a new
session with a new id, so a cookie that an attacker planted before the login gains nothing (session fixation). A session ends 8 hours
after the login, or an hour after its last request.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from starlette.datastructures import Headers

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_http.principal import Principal
from switchgear_http.problem import ProblemError
from switchgear_http.session import LONGEST_S, LoginKind, LoginSession, cookie_of, session_name, set_cookie
from switchgear_schemas.errors import SettingsError

try:
    from itsdangerous import BadData, URLSafeSerializer
except ImportError as error:  # an extra
    raise SettingsError(
        "Logins of browsers need the package itsdangerous.", hint="Install switchgear[sink]."
    ) from error

_RENEW_S: Final = 60
"""A cookie is sent again when its last one is so old. A page with many requests gets few cookies."""
_MOST_ENDED: Final = 10_000
_MOST_COOKIE: Final = 4_096
_REST_OF_COOKIE: Final = 128
"""Bytes of its name and attributes, and of a later time."""


class Sessions:
    """Makes and checks the cookies.

    Args:
        secret: Signs them. Processes that share logins have the same. None: a random one, so a restart ends all sessions.
        clock: For tests.
    """

    def __init__(self, secret: str | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._ended = BoundedDict[str, None](_MOST_ENDED)
        self._replaced = BoundedDict[str, None](_MOST_ENDED)
        key = secret or secrets.token_hex(32)
        self._serializer = _serializer(key, "switchgear.session")
        self._brief = _serializer(key, "switchgear.login")

    def begin(self, principal: Principal, login: LoginKind) -> LoginSession:
        """Return a new session of a client that has just logged in.

        That of a token has no rights in it: each request takes those that the token has then.

        Raises:
            ProblemError: The client's rights don't fit into a cookie.
        """
        now, of_token = self._clock(), login == "token"
        session = LoginSession(
            secrets.token_urlsafe(16),
            secrets.token_urlsafe(24),
            login,
            "" if of_token else principal.name,
            () if of_token else tuple(sorted(principal.roles)),
            principal.credential,
            now,
            now,
            None if of_token else principal.tenant,
            () if of_token else principal.tools,
        )
        if len(self._text(session)) > _MOST_COOKIE - _REST_OF_COOKIE:
            raise ProblemError(
                403,
                f"The name and the rights of {principal.name[:80]!r} don't fit into a cookie, which browsers cut at 4 KB.",
                "Have the issuer send a shorter subject and tenant.",
            )
        return session

    def find(self, headers: Headers, *, secure: bool) -> LoginSession | None:
        """Return the session of a request; None if it has none, or it is over."""
        text = cookie_of(headers, session_name(secure=secure))
        if text is None or len(text) > _MOST_COOKIE:
            return None
        try:
            session = msgspec.convert(self._serializer.loads(text), LoginSession)
        except (BadData, msgspec.ValidationError):
            return None
        now = self._clock()
        if now >= session.expires_at or session.seen_at > now + _RENEW_S or session.id in self._ended:
            return None
        return session

    def renewed(self, session: LoginSession) -> LoginSession | None:
        """Return the session with the time of this request; None if its cookie is new enough."""
        now = self._clock()
        return msgspec.structs.replace(session, seen_at=now) if now - session.seen_at >= _RENEW_S else None

    def end(self, session: LoginSession) -> None:
        """End a session before its time. Other processes accept its cookie until it expires, so a stolen copy works there."""
        self._ended[session.id] = None

    def replace(self, session: LoginSession) -> None:
        """Note that its browser has logged in again. A late answer to its last requests must not bring its cookie back."""
        self._replaced[session.id] = None

    def may_renew(self, session: LoginSession) -> bool:
        """Return whether its browser still has this session, as far as this process knows."""
        return session.id not in self._ended and session.id not in self._replaced

    def cookie(self, session: LoginSession, *, secure: bool) -> str:
        """Return the header ``Set-Cookie`` of a session."""
        left_s = max(0, int(session.began_at + LONGEST_S - self._clock()))
        return set_cookie(session_name(secure=secure), self._text(session), left_s, secure=secure)

    def _text(self, session: LoginSession) -> str:
        text = self._serializer.dumps(msgspec.to_builtins(session))
        return text if isinstance(text, str) else text.decode()

    def sealed(self, values: Mapping[str, str | float]) -> str:
        """Return signed values for a cookie of a login that is under way."""
        text = self._brief.dumps(dict(values))
        return text if isinstance(text, str) else text.decode()

    def opened(self, text: str) -> dict[str, str | float] | None:
        """Return the values of :meth:`sealed`; None if they were changed."""
        try:
            found = self._brief.loads(text)
        except BadData:
            return None
        return found if isinstance(found, dict) else None


def _serializer(secret: str, salt: str) -> URLSafeSerializer:
    options = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
    return URLSafeSerializer(secret, salt=salt, signer_kwargs=options)
