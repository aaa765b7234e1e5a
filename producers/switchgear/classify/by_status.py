"""Classify exceptions by the HTTP status that they carry: httpx, requests, aiohttp, urllib, OpenAI, Anthropic, Google and more."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

from switchgear.classify.by_type import by_library
from switchgear.classify.classification import Classification, attribute
from switchgear.numeric import is_number, is_whole
from switchgear_schemas.enums import ErrorClass

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
"""OpenAI's 429 for an account without credit. Waiting for ``Retry-After`` doesn't help."""


def by_status(error: BaseException) -> Classification | None:
    """Return the class of the exception's HTTP status, None without a status of 300 or more.

    A redirect that a client raises as an error is ``tool``, because the server answered. If the type says more, as for too
    many redirects, the type decides.
    """
    status = http_status(error)
    if status is None or status < 300 or (status < 400 and by_library(error) is not None):
        return None
    found = class_of_status(status)
    may_ask = found == "rate_limited" or status in _OVERLOADED
    if not may_ask or (attribute(error, "body") is not None and attribute(error, "code") in _NO_WAIT_HELPS):
        return Classification(found)
    return Classification(found, retry_after(error))


def class_of_status(status: int) -> ErrorClass:
    """Return the class of a status of 300 or more.

    429 ``rate_limited``; 408, 504 ``timeout``; 401, 402, 403, 407 ``auth``; 499 ``cancelled``; other 5xx ``server``, 4xx
    ``invalid_input``, 3xx ``tool``.
    """
    if status < 400:
        return "tool"
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "invalid_input")


def class_of_digits(code: object) -> ErrorClass | None:
    """Return the class of a code that is a status as text (``"502"``), None for other codes."""
    if not isinstance(code, str) or len(code) != 3 or not code.isascii() or not code.isdecimal():
        return None
    return class_of_status(int(code)) if 300 <= int(code) <= 599 else None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of the exception's response or of the exception itself, None without one."""
    response = attribute(error, "response")
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status"),
        (error, "code"),
    ):
        value = attribute(holder, name)
        if is_whole(value) and 100 <= value <= 599:
            return int(value)
    return None


def retry_after(error: BaseException, *, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds in the attribute ``retry_after`` or in the headers of the exception or its response, or None."""
    direct = attribute(error, "retry_after")
    if is_number(direct):
        return _number(direct)
    for holder in (attribute(error, "response"), error):
        headers = attribute(holder, "headers")
        if headers is not None and callable(attribute(headers, "get")):
            return from_headers(headers, now=now)
    return None


def from_headers(headers: Any, *, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds in ``retry-after-ms`` (OpenAI, Azure) or ``Retry-After``, None for an unreadable value.

    ``Retry-After`` has seconds or an HTTP date (RFC 9110, 10.2.3).

    Args:
        headers: A mapping. Its keys may be case-insensitive, as written in the RFC, or in lower case.
        now: Returns seconds since 1970, for dates.
    """
    milliseconds = _number(_header(headers, "retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = _header(headers, "Retry-After") or _header(headers, "retry-after")
    seconds = _number(value)
    if seconds is not None or not isinstance(value, str):
        return seconds
    date = _date(value)
    return None if date is None else max(0.0, date - now())


def _header(headers: Any, name: str) -> Any:
    try:
        return headers.get(name)
    except Exception:  # noqa: BLE001 - headers of any library; without them the class is known all the same
        return None


def _date(value: str) -> float | None:
    """Return seconds since 1970. A date without a zone (asctime's form, or ``-0000``) is UTC (RFC 9110, 5.6.7)."""
    import email.utils  # noqa: PLC0415 - dates are rare, and the import is slow
    from datetime import UTC  # noqa: PLC0415 - see above

    try:
        moment = email.utils.parsedate_to_datetime(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None


def _number(value: object) -> float | None:
    try:
        seconds = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None
