"""The settings of a server that clients log in to: tokens, JWTs, limits and certificates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, SecretStr, field_validator

LEAST_KEY_BYTES: Final = 16
"""Of a key that signs. A shorter one could be guessed from a signature."""
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")


def comma_separated(text: str | None) -> list[str]:
    """Return the parts of a list that is written with commas, without spaces around them. Empty parts are left out."""
    return [part for each in (text or "").split(",") if (part := each.strip())]


class AccessSettings(BaseModel):
    """Settings of the HTTP API and the gateway."""

    access_tokens_file: Path | None = Field(
        default=None, description="The tokens that clients may use, hashed: TOML or JSON, by `switchgear token`."
    )
    access_tokens: SecretStr | None = Field(
        default=None, description="The content of such a file, for platforms that set variables."
    )
    access_jwt_issuer: str | None = Field(default=None, description="OpenID Connect issuer whose JWTs are accepted.")
    access_jwt_audience: str | None = Field(default=None, description="A JWT must be for this audience (claim aud).")
    access_jwt_jwks_url: str | None = Field(
        default=None, description="Where the issuer's keys are. Unset: its openid-configuration says it."
    )
    access_jwt_algorithms: str = Field(default="RS256,ES256", description="Signatures that are accepted.")
    access_jwt_roles_claim: str = Field(default="roles", description="The claim with the roles; a path with dots.")
    access_jwt_tenant_claim: str | None = Field(default=None, description="The claim with the tenant.")
    access_oidc_client_id: str | None = Field(
        default=None, description="Browsers log in with the issuer as this client (authorization code with PKCE)."
    )
    access_oidc_client_secret: SecretStr | None = Field(
        default=None, description="The client's secret; unset for a public client."
    )
    access_oidc_scopes: str = Field(default="openid profile email", description="What is asked of the issuer.")
    access_public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/\s]+$",
        description="Address by which browsers reach the HTTP API, such as https://console.example.com; else the request's.",
    )
    access_session_secret: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Signs the cookies of browsers, 32 characters or more; the same in all processes. Unset: a restart ends sessions.",
    )
    access_cors_origins: str | None = Field(
        default=None, description="Origins, comma-separated, whose pages may read answers in a browser."
    )
    access_requests_per_token: int = Field(
        default=64, ge=1, le=100_000, description="Requests in progress with one token; then 429."
    )
    access_requests_per_address: int = Field(
        default=64, ge=1, le=100_000, description="The same from one address. Raise it behind a proxy."
    )
    gateway_permit_key: SecretStr | None = Field(
        default=None,
        description="A secret of all gateways together, at least 16 bytes, that signs permits. Unset: each gateway has its own.",
    )
    tls_certfile: Path | None = Field(default=None, description="PEM file of the server's certificate and its chain.")
    tls_keyfile: Path | None = Field(
        default=None, description="PEM file of its private key; unset where tls_certfile holds the key too."
    )
    tls_key_password: SecretStr | None = Field(default=None, description="Of an encrypted private key.")

    @field_validator("gateway_permit_key")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) < LEAST_KEY_BYTES:
            raise ValueError(f"must be at least {LEAST_KEY_BYTES} bytes: `openssl rand -hex 32` makes one")
        return value

    @field_validator("access_cors_origins")
    @classmethod
    def _exact_origins(cls, value: str | None) -> str | None:
        for origin in comma_separated(value):
            if _ORIGIN.fullmatch(origin) is None:
                raise ValueError(
                    f"must be exact origins such as https://console.example.com, in lower case, got {origin!r}"
                )
        return value
