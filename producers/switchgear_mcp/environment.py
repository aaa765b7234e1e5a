"""The environment of a server that the proxy starts.

It is what the official MCP clients give their servers: a short list, with ``PATH`` and ``HOME``, and what the server's entry names. Some
clients give all they have. So the list has what a program needs to reach the network of a company, too, and no secret: the files of
certificates, and proxies without credentials. The proxy's own settings and the secrets of the shell it runs in stay with the proxy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from switchgear_schemas.errors import WrongUsageError

_EVERY_SERVER: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES: Final = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
)


def environment_of(named: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a server.

    Args:
        named: What its entry names. It wins over the short list.
    """
    return {**_short_list(), **named}


def _short_list() -> dict[str, str]:
    found = {name: os.environ[name] for name in (*_EVERY_SERVER, *_CERTIFICATES) if name in os.environ}
    found |= {name: os.environ[name] for name in _PROXIES if "@" not in os.environ.get(name, "@")}
    return {name: value for name, value in found.items() if not value.startswith("()")}  # functions of a shell


def passed_on(names: Sequence[str]) -> dict[str, str]:
    """Return the variables of the proxy that a command line passes on to its server. Those that aren't set are left out.

    Raises:
        WrongUsageError: A name holds a value too. The message doesn't show it, because it may be a secret.
    """
    for name in names:
        if "=" in name or not name:
            raise WrongUsageError(
                "--env takes the name of a variable, without a value.",
                hint="All users of a machine can read arguments: set the variable, and give its name.",
            )
    return {name: os.environ[name] for name in names if name in os.environ}
