"""The wait that an answer asks for: ``Retry-After`` in its spellings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from switchgear.classify.classification import attribute


def retry_after(error: BaseException, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds from a ``retry_after`` attribute, or from the headers of the exception or its response."""
    direct = attribute(error, "retry_after")
    if isinstance(direct, (int, float)) and not isinstance(direct, bool):
        return _sensible(direct)
    for holder in (attribute(error, "response"), error):
        headers = attribute(holder, "headers")
        if headers is not None and callable(attribute(headers, "get")):
            return from_headers(headers, now=now)
    return None


def from_headers(headers: Any, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds from ``retry-after-ms`` (OpenAI, Azure), or ``Retry-After``: seconds, or an HTTP date (RFC 9110, 10.2.3).

    Args:
        headers: A mapping; its keys may be case-insensitive, as written in the RFC, or lower case.
        now: Seconds since 1970, for dates.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After") or headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not isinstance(value, str):
        return seconds
    import email.utils  # noqa: PLC0415 - a date is rare, and the import costs more than all the rest of this package

    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - now())


def _number(value: object) -> float | None:
    try:
        return _sensible(float(value)) if isinstance(value, (str, int, float)) else None
    except ValueError:
        return None


def _sensible(seconds: float) -> float | None:
    return float(seconds) if seconds >= 0 and math.isfinite(seconds) else None
