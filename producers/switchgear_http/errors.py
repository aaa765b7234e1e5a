"""Why a login fails."""

from __future__ import annotations

from switchgear_schemas.errors import SwitchgearError


class InvalidCredentialsError(SwitchgearError):
    """A token or JWT gives no access. The message says why, without the token."""


class KeysUnavailableError(SwitchgearError):
    """The issuer's keys can't be read now, so a JWT can be neither accepted nor refused."""
