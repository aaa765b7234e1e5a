"""What kind of failure an exception is: that, not the exception, decides whether it counts against a circuit.

Types of other libraries are recognised by module and name along the method resolution order, never imported.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from switchgear_schemas.execution import ErrorClass


@dataclass(frozen=True, slots=True)
class Classification:
    """``retry_after_s``: the wait in seconds that a rate-limited or overloaded tool asked for."""

    error_class: ErrorClass
    retry_after_s: float | None = None


Classifier = Callable[[BaseException], "Classification | ErrorClass | None"]
"""A user's own rule; None leaves the exception to :func:`classify`."""

# Order matters: the first type of the exception's MRO that is named here decides.
_BY_NAME: Final[dict[tuple[str, str], ErrorClass]] = {
    ("asyncio", "CancelledError"): "cancelled",
    ("concurrent", "CancelledError"): "cancelled",
    ("trio", "Cancelled"): "cancelled",
    ("httpx", "TimeoutException"): "timeout",
    ("httpx", "TransportError"): "transport",
    ("httpx", "InvalidURL"): "invalid_input",
    ("httpx", "DecodingError"): "server",
    ("requests", "Timeout"): "timeout",
    ("requests", "ConnectionError"): "transport",
    ("requests", "ChunkedEncodingError"): "transport",
    ("requests", "InvalidURL"): "invalid_input",
    ("requests", "MissingSchema"): "invalid_input",
    ("requests", "JSONDecodeError"): "server",
    ("aiohttp", "ServerTimeoutError"): "timeout",
    ("aiohttp", "ClientConnectionError"): "transport",
    ("aiohttp", "ClientPayloadError"): "transport",
    ("aiohttp", "InvalidURL"): "invalid_input",
    ("urllib3", "TimeoutError"): "timeout",
    ("urllib3", "HTTPError"): "transport",
    ("anyio", "ClosedResourceError"): "transport",
    ("anyio", "BrokenResourceError"): "transport",
    ("anyio", "EndOfStream"): "transport",
    ("pydantic_core", "ValidationError"): "invalid_input",
}
_BY_STATUS: Final[dict[int, ErrorClass]] = {
    401: "auth",
    403: "auth",
    407: "auth",
    408: "timeout",
    429: "rate_limited",
    504: "timeout",
}
_CANCELLED: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_BAD_ARGUMENT: Final = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, TypeError)


def classify(error: BaseException) -> Classification:
    """Classify by HTTP status where the exception carries one, else by its type.

    * A cancelled call (also by ``KeyboardInterrupt`` or a closed generator) is ``cancelled``: never a failure.
    * 429 is ``rate_limited`` and 5xx ``server``, with ``Retry-After``; 408 and 504 ``timeout``; 401, 403 and 407 ``auth``;
      any other 4xx ``invalid_input``.
    * ``TimeoutError`` is ``timeout``; ``ConnectionError``, failed name look-ups, TLS and other ``OSError`` are ``transport``,
      except ``PermissionError`` (``auth``) and missing or existing files (``invalid_input``).
    * ``TypeError`` and ``ValueError`` are ``invalid_input``: the tool works, its argument does not. An answer that is not
      JSON or not text (``JSONDecodeError``, ``UnicodeDecodeError``) is ``server``.
    * Everything else is ``unknown``, which counts: also ``KeyError`` and ``AttributeError``, an answer of unexpected shape.
    """
    if isinstance(error, _CANCELLED):
        return Classification("cancelled")
    status = http_status(error)
    if status is not None and status >= 400:
        found = _BY_STATUS.get(status) or ("server" if status >= 500 else "invalid_input")
        asks = found == "rate_limited" or status == 503
        return Classification(found, retry_after(error) if asks else None)
    for kind in type(error).__mro__:
        named = _BY_NAME.get((kind.__module__.partition(".")[0], kind.__name__))
        if named is not None:
            return Classification(named)
    return Classification(_of_builtin(error))


_BUILTIN: Final[tuple[tuple[tuple[type[BaseException], ...], ErrorClass], ...]] = (
    ((TimeoutError,), "timeout"),
    ((json.JSONDecodeError, UnicodeDecodeError), "server"),
    ((PermissionError,), "auth"),
    (_BAD_ARGUMENT, "invalid_input"),
    ((OSError, EOFError), "transport"),
    ((ValueError,), "invalid_input"),
)
"""First match decides: subclasses before their bases."""


def _of_builtin(error: BaseException) -> ErrorClass:
    return next((found for kinds, found in _BUILTIN if isinstance(error, kinds)), "unknown")


def http_status(error: BaseException) -> int | None:
    """The HTTP status an exception carries: of its response (httpx, requests, OpenAI, Anthropic), or its own."""
    response = getattr(error, "response", None)
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status"),
        (error, "code"),
    ):
        value = getattr(holder, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return int(value)
    return None


def retry_after(error: BaseException, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds of the ``Retry-After`` header (RFC 9110: seconds, or an HTTP date), or of a ``retry_after`` attribute."""
    direct = getattr(error, "retry_after", None)
    if isinstance(direct, (int, float)) and direct >= 0:
        return float(direct)
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    if not isinstance(headers, Mapping) and not hasattr(headers, "get"):
        return None
    value = headers.get("Retry-After") or headers.get("retry-after")
    if not isinstance(value, str):
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - now())
