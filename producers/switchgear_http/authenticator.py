"""Find out who sends a request: by a token, by a JWT, or because only this machine is served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from switchgear_http.errors import InvalidCredentialsError
from switchgear_http.principal import Principal
from switchgear_http.session import LoginSession
from switchgear_http.token_source import FixedTokens, TokenFile, TokenSource
from switchgear_http.tokens import PREFIX
from switchgear_schemas.access_settings import AccessSettings, comma_separated
from switchgear_schemas.errors import SettingsError


class Authenticator:
    """Knows every way to log in.

    Args:
        sources: Tokens. A token of any of them is accepted.
        jwt: Accepts a JWT; None if no issuer is configured.
        browsers: Browsers can log in with an issuer.
    """

    def __init__(
        self,
        sources: Sequence[TokenSource] = (),
        jwt: Callable[[str], Awaitable[Principal]] | None = None,
        *,
        browsers: bool = False,
    ) -> None:
        self._sources = tuple(sources)
        self._jwt = jwt
        self._browsers = browsers

    @classmethod
    def of(cls, settings: AccessSettings) -> Authenticator:
        """Return the ways to log in that the settings configure.

        Raises:
            SettingsError: A setting is wrong, or the file of tokens can't be read.
        """
        sources: list[TokenSource] = []
        if settings.access_tokens is not None:
            sources.append(FixedTokens(settings.access_tokens.get_secret_value(), "The setting access_tokens"))
        if settings.access_tokens_file is not None:
            sources.append(TokenFile(settings.access_tokens_file, *(source.table for source in sources)))
        return cls(sources, _jwt(settings), browsers=settings.access_oidc_client_id is not None)

    @property
    def configured(self) -> bool:
        """Whether there is a way to log in. If not, only this machine is served."""
        return bool(self._sources) or self._jwt is not None or self._browsers

    def principal_of(self, session: LoginSession) -> Principal | None:
        """Return the client of a session; None if its login gives no access any more.

        A token's rights are those that it has now. The rights from an issuer stay as they were at the login.
        """
        if session.login != "token" or not session.credential.startswith("token "):
            return session.principal()
        found = (source.table.find(session.credential) for source in self._sources)
        return next((each for each in found if each is not None), None)

    async def authenticate(self, credential: str) -> Principal:
        """Return the client that has this token or JWT.

        Raises:
            InvalidCredentialsError: It gives no access.
            KeysUnavailableError: It is a JWT, and the issuer's keys can't be read.
        """
        if self._jwt is not None and not credential.startswith(PREFIX):
            return await self._jwt(credential)
        refused = InvalidCredentialsError("The token is unknown.")
        for source in self._sources:
            try:
                return source.table.authenticate(credential)
            except InvalidCredentialsError as error:
                refused = error
        raise refused


def _jwt(settings: AccessSettings) -> Callable[[str], Awaitable[Principal]] | None:
    issuer, audience = settings.access_jwt_issuer, settings.access_jwt_audience
    if issuer is None or (audience is None and settings.access_oidc_client_id is not None):
        return None  # the issuer is for browsers only
    if audience is None:
        raise SettingsError(
            "access_jwt_issuer is set without access_jwt_audience.",
            hint="Set it to the name that the issuer gives this server in the claim aud.",
        )
    from switchgear_http.jwt import ALGORITHMS, JwtVerifier, KeySet, is_protected  # noqa: PLC0415 - an extra

    algorithms = comma_separated(settings.access_jwt_algorithms)
    unknown = sorted(set(algorithms) - ALGORITHMS)
    if unknown or not algorithms:
        raise SettingsError(
            f"access_jwt_algorithms has {', '.join(unknown) or 'no algorithm'}.",
            hint=f"Choose from {', '.join(sorted(ALGORITHMS))}.",
        )
    for name in ("access_jwt_issuer", "access_jwt_jwks_url"):
        url = getattr(settings, name)
        if url is not None and not is_protected(url):
            raise SettingsError(f"{name} {url!r} is not an https address.", hint="Write https://….")
    keys = KeySet(issuer, algorithms, settings.access_jwt_jwks_url)
    return JwtVerifier(
        keys,
        issuer=issuer,
        audience=audience,
        algorithms=algorithms,
        roles_claim=settings.access_jwt_roles_claim,
        tenant_claim=settings.access_jwt_tenant_claim,
    ).authenticate
