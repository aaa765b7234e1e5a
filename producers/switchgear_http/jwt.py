"""JSON Web Tokens of an OpenID Connect issuer, verified with PyJWT."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
import structlog

from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.hosts import is_loopback
from switchgear_http.principal import Principal, Role, fitted
from switchgear_schemas.errors import SettingsError

try:
    import jwt
except ImportError as error:  # an extra
    raise SettingsError("JWTs need the package PyJWT.", hint="Install switchgear[jwt].") from error

log = structlog.get_logger()

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signatures that a public key verifies. With HMAC or ``none``, anyone who knows the public key could sign."""
LEEWAY_S: Final = 30.0
FETCH_LIMIT_S: Final = 5.0
FETCH_EVERY_S: Final = 10.0
"""At most one fetch in so many seconds, whatever ids of keys the clients name."""
REFRESH_S: Final = 3600.0
OLDEST_S: Final = 24 * 3600.0
"""Keys are used for so long while the issuer does not answer."""
_MAX_BYTES: Final = 1_048_576
_MAX_KEYS: Final = 1_000
_MAX_JWT: Final = 12_000
_ROLE_PREFIX: Final = "switchgear:"
_COLLECTOR: Final = "collector"
"""Among the roles, this marks a collector's credential."""

Fetch = Callable[[str], Awaitable[Any]]


class KeySet:
    """The public keys of an issuer, by id. An unknown id leads to a new fetch, because issuers change their keys.

    Args:
        issuer: The issuer, as in the claim ``iss``.
        algorithms: Only keys for these.
        jwks_url: Where the keys are. None: the issuer's ``/.well-known/openid-configuration`` says it.
        fetch: For tests.
        clock: For tests.
    """

    def __init__(
        self,
        issuer: str,
        algorithms: Sequence[str],
        jwks_url: str | None = None,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._algorithms = frozenset(algorithms)
        self._jwks_url = jwks_url
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._turn = asyncio.Lock()

    async def find(self, identity: str | None) -> jwt.PyJWK:
        """Return the key with this id. Without an id it is the only key, if there is only one.

        Raises:
            InvalidCredentialsError: The issuer has no such key.
            KeysUnavailableError: The keys can't be read.
        """
        if self._stale() or self._get(identity) is None:
            async with self._turn:
                if (self._stale() or self._get(identity) is None) and self._clock() - self._tried_at >= FETCH_EVERY_S:
                    await self._refresh()
        if self._clock() - self._fetched_at > OLDEST_S:
            raise KeysUnavailableError("The keys of the issuer can't be read now.", hint="Try again in a few seconds.")
        key = self._get(identity)
        if key is None:
            raise InvalidCredentialsError("The issuer has no key with the id that the JWT names.")
        return key

    def _stale(self) -> bool:
        return self._clock() - self._fetched_at > REFRESH_S

    def _get(self, identity: str | None) -> jwt.PyJWK | None:
        if identity is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(identity)

    async def _refresh(self) -> None:
        self._tried_at = self._clock()
        try:
            async with asyncio.timeout(FETCH_LIMIT_S):
                keys = self._usable(await self._fetch(self._jwks_url or await self._discover()))
        except (TimeoutError, OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            log.warning("the keys of the issuer can't be read", issuer=self._issuer, why=str(error) or "no answer")
            return
        self._keys, self._fetched_at = keys, self._clock()

    async def _discover(self) -> str:
        found = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(found, dict) or found.get("issuer") != self._issuer:
            raise ValueError("its configuration names another issuer")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or not is_protected(url):
            raise ValueError("its configuration has no jwks_uri with https")
        return url

    def _usable(self, document: Any) -> dict[str | None, jwt.PyJWK]:
        listed = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise ValueError("the answer is not a set of keys")  # noqa: TRY004 - bytes that came over the wire
        found: dict[str | None, jwt.PyJWK] = {}
        for each in listed[:_MAX_KEYS]:
            if not isinstance(each, dict) or each.get("use", "sig") != "sig":
                continue
            try:
                key = jwt.PyJWK(each)
            except jwt.PyJWTError:  # of a kind that PyJWT does not know
                continue
            if key.algorithm_name in self._algorithms:
                found[key.key_id] = key
        if not found:
            raise ValueError(f"it has no key for {', '.join(sorted(self._algorithms))}")
        return found


class JwtVerifier:
    """Turns a JWT into a client.

    The roles are the values of a claim: ``read``, or ``switchgear:read``, as a list or separated by spaces. ``collector`` among them marks a
    collector's credential. Other values are ignored.

    Args:
        keys: The issuer's keys.
        issuer: The claim ``iss`` must be this.
        audience: The claim ``aud`` must have this.
        algorithms: Signatures that are accepted.
        roles_claim: Name of the claim with the roles, or a path with dots.
        tenant_claim: The same for the tenant. A JWT without it is refused. None: every JWT is for all tenants.
    """

    def __init__(
        self,
        keys: KeySet,
        *,
        issuer: str,
        audience: str,
        algorithms: Sequence[str],
        roles_claim: str = "roles",
        tenant_claim: str | None = None,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._host = urlsplit(issuer).netloc.rpartition("@")[2]
        self._audience = audience
        self._algorithms = tuple(algorithms)
        self._roles_claim = roles_claim
        self._tenant_claim = tenant_claim

    async def authenticate(self, text: str, *, nonce: str | None = None) -> Principal:
        """Return the client that has this JWT.

        Args:
            text: The JWT.
            nonce: The claim ``nonce`` must be this. None: it is not looked at.

        Raises:
            InvalidCredentialsError: The JWT is wrong, expired, not yet valid, or for another audience.
            KeysUnavailableError: The issuer's keys can't be read.
        """
        if len(text) > _MAX_JWT:
            raise InvalidCredentialsError("The JWT is too long.")
        try:
            header = jwt.get_unverified_header(text)
        except jwt.PyJWTError:
            raise InvalidCredentialsError("The token is neither a token of Switchgear nor a JWT.") from None
        if header.get("alg") not in self._algorithms:
            raise InvalidCredentialsError("The JWT is signed with an algorithm that is not accepted here.")
        identity = header.get("kid")
        key = await self._keys.find(identity if isinstance(identity, str) else None)
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=list(self._algorithms),
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as error:
            raise InvalidCredentialsError(_why(error)) from None
        if nonce is not None and not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise InvalidCredentialsError("The JWT is not of this login.")
        return self._principal(claims)

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        tenant = None
        if self._tenant_claim is not None:
            tenant = claim(claims, self._tenant_claim)
            if not isinstance(tenant, str) or not 0 < len(tenant) <= 256:
                raise InvalidCredentialsError(f"The JWT has no tenant in its claim {self._tenant_claim}.")
        subject = fitted(str(claims["sub"]))
        names = _names(claim(claims, self._roles_claim))
        roles = frozenset(role for role in Role if role in names)
        credential = f"jwt {self._host}:{subject}"
        return Principal(subject, roles, tenant, credential=credential, collector=_COLLECTOR in names)


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path with dots (``realm_access.roles``). None if it is absent."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def is_protected(url: str) -> bool:
    """Return whether the answer of the address is safe from changes on its way: https, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


async def fetch_json(url: str) -> Any:
    """Return the JSON document at an address.

    Raises:
        httpx.HTTPError: It can't be reached, or the status isn't 200.
        ValueError: It is not JSON, or larger than 1 MiB.
    """
    async with httpx.AsyncClient(timeout=FETCH_LIMIT_S) as client, client.stream("GET", url) as answer:
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"status {answer.status_code} at {url}")
        body = bytearray()
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > _MAX_BYTES:
                raise ValueError(f"more than {_MAX_BYTES} bytes at {url}")
    return msgspec.json.decode(body)


def _names(value: Any) -> set[str]:
    listed = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return {each.removeprefix(_ROLE_PREFIX) for each in listed if isinstance(each, str)}


def _why(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.ExpiredSignatureError):
        return "The JWT is expired."
    if isinstance(error, jwt.ImmatureSignatureError):
        return "The JWT is not valid yet."
    if isinstance(error, jwt.InvalidAudienceError):
        return "The JWT is for another audience."
    if isinstance(error, jwt.InvalidIssuerError):
        return "The JWT is of another issuer."
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"The JWT has no claim {error.claim}."
    return "The JWT is not valid."
