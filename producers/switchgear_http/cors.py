"""Cross-origin requests: off, unless the operator names the origins whose pages may read the answers."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Scope, Send

from switchgear_schemas.access_settings import comma_separated

_METHODS: Final = "GET, POST"
"""Pages may not change how long rows are kept, and no other route needs more."""
_REQUEST_HEADERS: Final = (
    "Authorization, Content-Encoding, Content-Type, If-None-Match, Last-Event-ID, Prefer, Switchgear-Resent"
)
_ANSWER_HEADERS: Final = "ETag, Retry-After, WWW-Authenticate"
_MAX_AGE_S: Final = "600"


class Origins:
    """The origins that are named.

    Args:
        listed: Exact origins, comma-separated: ``https://console.example.com``. None or empty: none.
    """

    def __init__(self, listed: str | None) -> None:
        self._origins = frozenset(comma_separated(listed))

    def allows(self, headers: Headers) -> str | None:
        """Return the origin of a request if it is named."""
        origin = headers.get("origin")
        return origin if origin in self._origins else None

    @property
    def named(self) -> bool:
        """Whether there are any."""
        return bool(self._origins)


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Return whether a browser asks here if it may send a request."""
    return scope["method"] == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


async def answer_preflight(send: Send, origin: str) -> None:
    """Say what a page of this origin may send."""
    headers = {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": _METHODS,
        "access-control-allow-headers": _REQUEST_HEADERS,
        "access-control-max-age": _MAX_AGE_S,
        "vary": "Origin",
    }
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 204, "headers": raw})
    await send({"type": "http.response.body"})


def readable(send: Send, origin: str | None) -> Send:
    """Return a channel whose answers say which origin's pages may read them, and that answers differ by origin."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.add_vary_header("Origin")
            if origin is not None:
                headers["access-control-allow-origin"] = origin
                headers["access-control-expose-headers"] = _ANSWER_HEADERS
        await send(message)

    return sending
