"""Check the host name of a request, against DNS rebinding.

A web page can let its own name resolve to 127.0.0.1. Then it can read what listens there, as if it came from the page's own server
(CWE-350). But it can't choose the ``Host`` header, which is the page's name. So an API that only this machine can reach answers to
``localhost``, to addresses, and to names that the operator lists.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from switchgear_http.problem import ProblemError
from switchgear_schemas.access_settings import comma_separated

MISDIRECTED: Final = 421
_RECENT: Final = 1024
"""Results that are kept. Nearly all requests come from few addresses."""


class KnownHosts:
    """The names that a server answers to.

    Args:
        listed: Names, comma-separated (also ``*.example.com``). None: the address decides. A server that other machines can reach
            answers to every name, because they may know it by any.
        address: ``host:port`` that the server listens on.
        setting: The variable that sets ``listed``, for the answer.
    """

    def __init__(self, listed: str | None, address: str, setting: str) -> None:
        self._names = frozenset(map(_plain, comma_separated(listed)))
        self._any = listed is None and not is_loopback(host_of(address))
        self._setting = setting

    def check(self, host: str) -> None:
        """Check the ``Host`` header of a request.

        Raises:
            ProblemError: The name is unknown.
        """
        if not self.knows(host):
            raise ProblemError(
                MISDIRECTED,
                f"This server does not answer to the name {host[:200]!r}.",
                f"Use localhost or an address, or add the name to {self._setting} (comma-separated).",
            )

    def knows(self, host: str) -> bool:
        """Return whether a ``Host`` header, with or without a port, names this server."""
        if self._any:
            return True
        name = host_name(host)
        if name is None:
            return False
        if name == "localhost" or _is_address(name):
            return True
        return name in self._names or any(
            each.startswith("*.") and name.endswith(each[1:]) and name != each[2:] for each in self._names
        )


def host_name(host: str) -> str | None:
    """Return the name or address of a ``Host`` header, in lower case and without brackets; None if it is malformed."""
    name, colon, port = host.strip().rpartition(":")
    if host.strip().endswith("]") or not colon:  # no port; the colons belong to the address
        name, port = host.strip(), "0"
    if not port.isdigit():
        return None
    bracketed = name.startswith("[") and name.endswith("]")
    if not bracketed and (":" in name or "[" in name):
        return None
    return _plain(name[1:-1] if bracketed else name) or None


def host_of(address: str) -> str:
    """Return the host of ``host:port``, without brackets."""
    return address.rpartition(":")[0].strip("[]")


@lru_cache(_RECENT)
def is_loopback(host: str) -> bool:
    """Return whether this is ``localhost``, or an address that only this machine can reach."""
    plain = _plain(host.strip("[]"))
    if not _is_address(plain):
        return plain == "localhost"
    address = ip_address(plain)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")
