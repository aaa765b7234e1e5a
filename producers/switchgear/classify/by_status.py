"""Classify exceptions by the HTTP status that they carry: httpx, requests, aiohttp, urllib, OpenAI, Anthropic, Google and more."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any, Final

from switchgear.classify.by_type import by_library
from switchgear.classify.classification import Classification
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
    if not may_ask or (getattr(error, "body", None) is not None and getattr(error, "code", None) in _NO_WAIT_HELPS):
        return Classification(found)
    return Classification(found, retry_after(error))


def class_of_status(status: int) -> ErrorClass:
    """Return the class of a status of 300 or more."""
    if status < 400:
        return "tool"
    return _BY_STATUS.get(status) or ("server" if status >= 500 else "invalid_input")


def class_of_digits(code: object) -> ErrorClass | None:
    """Return the class of a code that is a status as text (``"502"``), None for other codes."""
    if isinstance(code, str) and re.fullmatch("[345][0-9]{2}", code):
        return class_of_status(int(code))
    return None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of the exception's response or of the exception itself, None without one."""
    for holder in (getattr(error, "response", None), error):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if is_whole(value) and 100 <= value <= 599:
                return int(value)
    return None


def retry_after(error: BaseException) -> float | None:
    """Return the seconds in the attribute ``retry_after`` or in the headers of the exception or its response, or None."""
    direct = getattr(error, "retry_after", None)
    if is_number(direct):
        return _seconds(direct)
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        if callable(getattr(headers, "get", None)):
            return from_headers(headers)
    return None


def from_headers(headers: Any, *, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds in ``retry-after-ms`` (OpenAI, Azure) or ``Retry-After``, None for an unreadable value.

    ``Retry-After`` has seconds or an HTTP date (RFC 9110, 10.2.3).

    Args:
        headers: A mapping. Its keys may be case-insensitive, as written in the RFC, or in lower case.
        now: Returns seconds since 1970, for dates.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After") or headers.get("retry-after")
    seconds = _seconds(value)
    return _until_date(value, now()) if seconds is None and isinstance(value, str) else seconds


def _until_date(value: str, now: float) -> float | None:
    """Return the seconds until a date. One without a zone (asctime's form, or ``-0000``) is UTC (RFC 9110, 5.6.7)."""
    import email.utils  # noqa: PLC0415 - dates are rare, and the import is slow

    parsed = email.utils.parsedate_tz(value)
    try:
        return None if parsed is None else max(0.0, email.utils.mktime_tz((*parsed[:9], parsed[9] or 0)) - now)
    except (ValueError, OverflowError):
        return None


def _seconds(value: object) -> float | None:
    try:
        seconds = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < math.inf else None
