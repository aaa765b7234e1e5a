"""Check the host name of a request, against DNS rebinding.

A web page can let its own name resolve to 127.0.0.1. Then it can read what listens there, as if it came from the page's own server
(CWE-350). But it can't choose the ``Host`` header, which is the page's name. So an API that only this machine can reach answers to
``localhost``, to addresses, and to names that the operator lists.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from switchgear_schemas.settings import Settings
from switchgear_sinks.api.answers import error_answer

MISDIRECTED: Final = 421
_HINT: Final = "Use localhost or an address, or add the name to SWITCHGEAR_API_ALLOWED_HOSTS (comma-separated)."


class KnownHosts:
    """ASGI middleware that answers 421 to an unknown host name.

    Args:
        app: The application that answers the others.
        settings: ``api_allowed_hosts``. If it is unset, ``api_http`` decides: an API that other machines can reach answers to
            every name, because they may know it by any.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        listed = settings.api_allowed_hosts
        self._names = frozenset(_plain(each) for each in (listed or "").split(",") if each.strip())
        self._any = listed is None and not is_loopback(settings.api_http.rpartition(":")[0])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or self._any or self.knows(host := Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send)
        else:
            answer = error_answer(f"This API does not answer to the name {host[:200]!r}.", MISDIRECTED, _HINT)
            await answer(scope, receive, send)

    def knows(self, host: str) -> bool:
        """Return whether a ``Host`` header, with or without a port, names this API."""
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
