"""Where a server may listen, and its certificate."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from switchgear_http.authenticator import Authenticator
from switchgear_http.hosts import host_of, is_loopback
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.files import check_file


def check_listen(address: str, authenticator: Authenticator, setting: str) -> None:
    """Check that a server which other machines can reach has tokens.

    Args:
        address: ``host:port``.
        authenticator: The ways to log in.
        setting: Where the address is set, for the error.

    Raises:
        SettingsError: Other machines can reach the address, and no way to log in is configured.
    """
    if authenticator.configured or is_loopback(host_of(address)):
        return
    raise SettingsError(
        f"Other machines can reach {address}, and no tokens are set: create one with `switchgear token create`, and name "
        f"its file in SWITCHGEAR_ACCESS_TOKENS_FILE, or set {setting} to 127.0.0.1:{address.rpartition(':')[2]}."
    )


def tls_options(settings: AccessSettings) -> dict[str, Any]:
    """Return the keyword arguments for uvicorn that make it serve TLS; empty if no certificate is set.

    Raises:
        SettingsError: The files can't be used.
    """
    certificate, key = settings.tls_certfile, settings.tls_keyfile
    if certificate is None:
        if key is not None:
            raise SettingsError("tls_keyfile is set without tls_certfile.", hint="Set both, or neither.")
        return {}
    password = None if settings.tls_key_password is None else settings.tls_key_password.get_secret_value()
    for name, path in (("tls_certfile", certificate), ("tls_keyfile", key)):
        _check_readable(name, path)
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password or "")
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"{certificate} and {key or certificate} are not a certificate and its private key in PEM format.",
            hint="Correct tls_certfile and tls_keyfile, and set tls_key_password if the key is encrypted.",
        ) from error
    return {
        "ssl_certfile": str(certificate),
        "ssl_keyfile": None if key is None else str(key),
        "ssl_keyfile_password": password or "",
    }


def _check_readable(name: str, path: Path | None) -> None:
    if path is None:
        return
    try:
        check_file(path)
    except OSError as error:
        raise SettingsError(
            f"{name} names {path}, which can't be read: {error.strerror}.", hint="Correct the path."
        ) from None
