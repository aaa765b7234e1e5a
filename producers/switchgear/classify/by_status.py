"""Exceptions that carry an HTTP status: httpx, requests, aiohttp, urllib, OpenAI, Anthropic, Google and many more."""

from __future__ import annotations

from typing import Final

from switchgear.classify.classification import Classification, attribute
from switchgear.classify.retry_after import retry_after
from switchgear_schemas.words import ErrorClass

_BY_STATUS: Final[dict[int, ErrorClass]] = {
    401: "auth",
    402: "auth",
    403: "auth",
    407: "auth",
    408: "timeout",
    429: "rate_limited",
    499: "cancelled",
    504: "timeout",
}
_OVERLOADED: Final = frozenset({503, 529})
"""529 is Anthropic's ``overloaded_error``."""
_NO_WAIT_HELPS: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""OpenAI's 429 for an account without credit: it fails like any other, but no ``Retry-After`` ends that."""


def by_status(error: BaseException) -> Classification | None:
    """Classify by the exception's HTTP status, None without one of 400 or more."""
    status = http_status(error)
    if status is None or status < 400:
        return None
    found = class_of_status(status)
    asks = found == "rate_limited" or status in _OVERLOADED
    if not asks or (attribute(error, "body") is not None and attribute(error, "code") in _NO_WAIT_HELPS):
        return Classification(found)
    return Classification(found, retry_after(error))


def class_of_status(status: int) -> ErrorClass:
    """429 ``rate_limited``; 408, 504 ``timeout``; 401, 402, 403, 407 ``auth``; 499 ``cancelled``; other 5xx ``server``, 4xx ``invalid_input``."""
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "invalid_input")


def http_status(error: BaseException) -> int | None:
    """The HTTP status an exception carries: of its response, or its own."""
    response = attribute(error, "response")
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status"),
        (error, "code"),
    ):
        value = attribute(holder, name)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return int(value)
    return None
