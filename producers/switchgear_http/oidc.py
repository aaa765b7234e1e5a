"""Log in with an OpenID Connect issuer: authorization code with PKCE, by Authlib."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import structlog

from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.jwt import FETCH_LIMIT_S, JwtVerifier, KeySet, fetch_json, is_protected
from switchgear_http.principal import Principal
from switchgear_schemas.access_settings import AccessSettings, comma_separated
from switchgear_schemas.errors import SettingsError

try:
    from authlib.integrations.base_client import OAuthError
    from authlib.integrations.httpx_client import AsyncOAuth2Client
except ImportError as error:  # an extra
    raise SettingsError("OpenID Connect logins need the package Authlib.", hint="Install switchgear[oidc].") from error

log = structlog.get_logger()

CALLBACK: Final = "/login/oidc/callback"
LOGIN_S: Final = 600
"""Longest time between the two halves of a login."""
_LONGEST_PATH: Final = 2_000
_KEPT_S: Final = 3600.0
_AWAY: tuple[type[Exception], ...] = (httpx.HTTPError, ValueError)
"""Errors of an issuer that does not answer, or not as it should."""
with contextlib.suppress(ImportError):  # where httpx2 is installed, Authlib's client is one of httpx2
    import httpx2

    _AWAY += (httpx2.HTTPError,)


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login that has begun, for the cookie that waits for the issuer's answer."""

    url: str
    state: str
    nonce: str
    verifier: str


class OidcLogin:
    """The client of one issuer.

    Args:
        settings: ``access_oidc_…``, and the issuer and claims of ``access_jwt_…``.
        clock: For tests.

    Raises:
        SettingsError: A setting is missing or wrong.
    """

    def __init__(self, settings: AccessSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        issuer, client_id = settings.access_jwt_issuer, settings.access_oidc_client_id
        if issuer is None or client_id is None:
            raise SettingsError(
                "access_oidc_client_id is set without access_jwt_issuer.", hint="Set it to the issuer's address."
            )
        if not is_protected(issuer):
            raise SettingsError(f"access_jwt_issuer {issuer!r} is not an https address.", hint="Write https://….")
        self._issuer = issuer
        self._client_id = client_id
        secret = settings.access_oidc_client_secret
        self._secret = None if secret is None else secret.get_secret_value()
        self._scopes = settings.access_oidc_scopes
        self._clock = clock
        self._configuration: Mapping[str, Any] = {}
        self._read_at = float("-inf")
        algorithms = comma_separated(settings.access_jwt_algorithms)
        self._verifier = JwtVerifier(
            KeySet(issuer, algorithms, settings.access_jwt_jwks_url),
            issuer=issuer,
            audience=client_id,
            algorithms=algorithms,
            roles_claim=settings.access_jwt_roles_claim,
            tenant_claim=settings.access_jwt_tenant_claim,
        )

    async def begin(self, redirect_uri: str) -> PendingLogin:
        """Return the issuer's address to send the browser to, and what the second half of the login needs.

        Raises:
            KeysUnavailableError: The issuer does not answer.
        """
        endpoint = await self._endpoint("authorization_endpoint")
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        async with self._client(redirect_uri) as client:
            url, state = client.create_authorization_url(endpoint, code_verifier=verifier, nonce=nonce)
        return PendingLogin(url, state, nonce, verifier)

    async def finish(self, redirect_uri: str, code: str, verifier: str, nonce: str) -> Principal:
        """Return the client that the issuer's code stands for.

        Raises:
            InvalidCredentialsError: The issuer refuses the code, or its token is wrong.
            KeysUnavailableError: The issuer does not answer.
        """
        endpoint = await self._endpoint("token_endpoint")
        try:
            async with self._client(redirect_uri) as client:
                answer = await client.fetch_token(endpoint, code=code, code_verifier=verifier)
        except OAuthError as error:
            raise InvalidCredentialsError(f"The issuer refused the login ({error.error}).") from None
        except _AWAY as error:
            raise self._unavailable(error) from None
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise InvalidCredentialsError("The issuer sent no id_token. The scope openid is needed.")
        return await self._verifier.authenticate(token, nonce=nonce)

    def _client(self, redirect_uri: str) -> Any:
        return AsyncOAuth2Client(
            self._client_id,
            self._secret,
            scope=self._scopes,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            token_endpoint_auth_method="none" if self._secret is None else "client_secret_basic",
            timeout=FETCH_LIMIT_S,
        )

    async def _endpoint(self, name: str) -> str:
        if self._clock() - self._read_at > _KEPT_S:
            try:
                found = await fetch_json(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            except (OSError, ValueError, httpx.HTTPError) as error:
                raise self._unavailable(error) from None
            if not isinstance(found, dict) or found.get("issuer") != self._issuer:
                raise KeysUnavailableError("The configuration of the issuer names another issuer.")
            self._configuration, self._read_at = found, self._clock()
        url = self._configuration.get(name)
        if not isinstance(url, str) or not is_protected(url):
            raise KeysUnavailableError(f"The configuration of the issuer has no {name} with https.")
        return url

    def _unavailable(self, error: Exception) -> KeysUnavailableError:
        log.warning("the issuer does not answer", issuer=self._issuer, why=str(error) or type(error).__name__)
        return KeysUnavailableError("The issuer does not answer.", hint="Try again in a few seconds.")


def local_path(given: str | None) -> str:
    """Return a path of this server to go to after a login. Anything else becomes ``/``.

    A browser takes two slashes, and a slash with a backslash, for another server. It drops tabs and line feeds.
    """
    text = given or ""
    local = text.startswith("/") and not text.startswith("//") and "\\" not in text
    return (
        text if local and len(text) <= _LONGEST_PATH and text.isprintable() and not text.startswith("/login") else "/"
    )
