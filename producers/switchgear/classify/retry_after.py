"""The wait that an answer asks for: ``Retry-After`` in its spellings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from switchgear.classify.classification import attribute
from switchgear.numeric import is_number


def retry_after(error: BaseException, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds from a ``retry_after`` attribute, or from the headers of the exception or its response."""
    direct = attribute(error, "retry_after")
    if is_number(direct):
        return _number(direct)
    for holder in (attribute(error, "response"), error):
        headers = attribute(holder, "headers")
        if headers is not None and callable(attribute(headers, "get")):
            return from_headers(headers, now=now)
    return None


def from_headers(headers: Any, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds from ``retry-after-ms`` (OpenAI, Azure), or ``Retry-After``: seconds, or an HTTP date (RFC 9110, 10.2.3).

    None for what makes no sense, and where the headers can't be read: an odd wait must not cost the failure its class.

    Args:
        headers: A mapping; its keys may be case-insensitive, as written in the RFC, or lower case.
        now: Seconds since 1970, for dates.
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
    except Exception:  # noqa: BLE001 - foreign headers may do anything; they tell nothing then
        return None


def _date(value: str) -> float | None:
    """Seconds since 1970. A date without a zone (asctime's form, and ``-0000``) is UTC (RFC 9110, 5.6.7)."""
    import email.utils  # noqa: PLC0415 - a date is rare, and the import costs more than all the rest of this package
    from datetime import UTC  # noqa: PLC0415 - likewise

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
