"""How long a failed answer asks to wait, in seconds: in headers, in data, in what an exception carries.

Every function is bounded, never raises, and returns None where nothing can be read. The TypeScript client has the same rules in
``src/classify/waits.ts``.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from switchgear.arguments import is_number
from switchgear_schemas.enums import LONGEST_WAIT_S

Clock = Callable[[], float]
"""Returns seconds since 1970."""
_MOST_HEADERS: Final = 200
_MOST_LIMITS: Final = 1_000
"""Characters of ``RateLimit`` to look at."""
_LONGEST_VALUE: Final = 100
"""A longer text is no time."""
_MOST_BODY: Final = 20_000
"""Characters of a body that is JSON as text."""
_MOST_NODES: Final = 200
_MOST_MEMBERS: Final = 20
"""Objects and lists within data to look at, and members of each."""
_DEPTH: Final = 6
_LEAST_INSTANT_S: Final = 1e9
"""From here on a number is an instant. As a wait it would be 31 years."""
_LEAST_INSTANT_MS: Final = 1e12
_MOST_NUMBER: Final = 1e15
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|us|µs|ns|d|h|m|s)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")
_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RFC_3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_MONTH: Final = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)


def seconds_in(value: object, now: Clock = time.time) -> float | None:
    """Return the seconds that a value means, at most a year.

    | value | means |
    |---|---|
    | `45`, `"2.5"` | seconds |
    | `1795867245`, `1795867245000` | until this instant, in seconds or milliseconds since 1970 |
    | `"6m0s"`, `"20ms"`, `"37s"` | a duration, as Go and Google write it |
    | `"2026-11-28T12:00:20Z"` | until this instant (RFC 3339); without a zone it is UTC |
    | `"Sat, 28 Nov 2026 12:00:30 GMT"` | until this instant (RFC 9110, 5.6.7); without a zone it is UTC |
    | a `timedelta`, or a `Duration` of protobuf | its length |

    An instant in the past is 0 seconds away.
    """
    number = _number(value)
    if number is not None:
        if number < _LEAST_INSTANT_S:
            return min(number, LONGEST_WAIT_S)
        return _until(number / 1_000 if number >= _LEAST_INSTANT_MS else number, now)
    if not isinstance(value, str):
        return _length(value)
    text = _short(value)
    if _DURATION.fullmatch(text):
        return min(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), LONGEST_WAIT_S)
    return _until(_instant(text), now)


def from_headers(headers: Any, *, now: Clock = time.time) -> float | None:
    """Return the seconds that the headers of an answer ask to wait.

    An order comes first: ``retry-after-ms`` (OpenAI, Azure), then ``Retry-After`` (RFC 9110, 10.2.3). Then come the resets of limits:
    ``x-ratelimit-reset`` and ``-reset-requests`` and the like, ``anthropic-ratelimit-…-reset``, ``ratelimit-reset``, and IETF's
    ``RateLimit``. The longest reset of the limits that are used up decides. If no limit says what is left, it is the shortest.

    Args:
        headers: A mapping from names, in any case, to text or numbers. At most 200 are read.
        now: The clock for dates, if the answer has no ``Date`` of its own. That one is better: the same clock made both.
    """
    fields = _fields(headers)
    wait = _milliseconds(fields.get("retry-after-ms"))
    if wait is not None:
        return wait

    def clock() -> float:
        sent = fields.get("date")
        found = _instant(_short(sent)) if isinstance(sent, str) else None
        return now() if found is None else found

    wait = seconds_in(fields.get("retry-after"), clock)
    if wait is not None:
        return wait
    limits = list(_limits(fields, clock))
    used_up = [wait for left, wait in limits if left == 0]
    return max(used_up) if used_up else min((wait for left, wait in limits if left is None), default=None)


def in_data(data: object, *, now: Clock = time.time, depth: int = _DEPTH) -> float | None:
    """Return the seconds that data of an answer asks to wait: the body of an error, or details of one.

    These are read: ``retry_after``, ``retryAfter`` and the like, also with ``_ms`` or ``_seconds``; ``headers`` of an answer within;
    and Google's ``RetryInfo``, as JSON or as a message of protobuf. What lies nearest to the outside decides.

    Args:
        data: Objects and lists, as decoded from JSON.
        now: The clock for dates.
        depth: How deep to look: 1 is the outermost object alone.
    """
    queue, seen = deque([(data, 1)]), 0
    try:
        while queue and seen < _MOST_NODES:
            (value, level), seen = queue.popleft(), seen + 1
            found = _in_one(value, now)
            if found is not None:
                return found
            if level < depth:
                queue.extend((member, level + 1) for member in _members(value))
    except Exception:  # noqa: BLE001 - a foreign object may fail in any way; the class of the failure is known all the same
        return None
    return None


def of_error(error: object, *, now: Clock = time.time) -> float | None:
    """Return the seconds that an exception asks to wait.

    Its attribute ``retry_after`` decides, then the headers of its response and its own, then what is in its body or details.
    """
    direct = seconds_in(_attribute(error, "retry_after"), now)
    if direct is not None:
        return direct
    response = _attribute(error, "response")
    names = ("headers", "litellm_response_headers", "response_headers")
    for headers in (_attribute(response, "headers"), *(_attribute(error, name) for name in names)):
        found = from_headers(headers, now=now)
        if found is not None:
            return found
    bodies = (_attribute(error, "details"), _attribute(error, "body"), response)
    return next((found for body in bodies if (found := in_data(_decoded(body), now=now)) is not None), None)


def of_grpc(error: Any) -> float | None:
    """Return the seconds in a RetryInfo among the details of gRPC's status, None without grpcio-status, which brings its type."""
    try:
        from google.rpc import error_details_pb2, status_pb2  # noqa: PLC0415 - optional

        info: Any = error_details_pb2.RetryInfo()
        status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
        if any(detail.Unpack(info) for detail in status.details):
            return _length(info.retry_delay)
    except Exception:  # noqa: BLE001 - it is missing or odd; the class of the failure is known all the same
        return None
    return None


def _short(text: str) -> str:
    return text.strip() if len(text) <= _LONGEST_VALUE else ""


def _number(value: object) -> float | None:
    """Return a number from 0 that is written plainly, None for others."""
    if isinstance(value, str):
        text = _short(value)
        found = float(text) if _NUMBER.fullmatch(text) else None
    else:
        found = value if is_number(value) else None
    return float(found) if found is not None and 0 <= found < _MOST_NUMBER else None


def _milliseconds(value: object) -> float | None:
    number = _number(value)
    return None if number is None else min(number / 1_000, LONGEST_WAIT_S)


def _length(value: object) -> float | None:
    """Return the seconds of a ``timedelta`` or of a ``Duration`` of protobuf."""
    if isinstance(value, timedelta):
        return min(max(value.total_seconds(), 0.0), LONGEST_WAIT_S)
    seconds, nanos = _attribute(value, "seconds"), _attribute(value, "nanos")
    if not (is_number(seconds) and abs(seconds) < _MOST_NUMBER):
        return None
    return min(max(seconds + (_number(nanos) or 0.0) / 1e9, 0.0), LONGEST_WAIT_S)


def _until(instant: float | None, now: Clock) -> float | None:
    return None if instant is None else min(max(instant - now(), 0.0), LONGEST_WAIT_S)


def _instant(text: str) -> float | None:
    """Return an instant in seconds since 1970."""
    found = _RFC_3339.fullmatch(text)
    try:
        if found is not None:
            day, hour, zone = found.groups(default="Z")
            return datetime.fromisoformat(f"{day}T{hour}{zone.upper()}").timestamp()
        if not _MONTH.search(text):
            return None
        import email.utils  # noqa: PLC0415 - dates are rare, and the import is slow

        parsed = email.utils.parsedate_tz(text)  # without a zone (asctime's form, or -0000) it is UTC
        return None if parsed is None else float(email.utils.mktime_tz((*parsed[:9], parsed[9] or 0)))
    except (ValueError, OverflowError):
        return None


def _fields(headers: Any) -> dict[str, str | float]:
    """Return the headers that are text or a number, by their names in lower case. Of several with one name it is the first."""
    found: dict[str, str | float] = {}
    items = _attribute(headers, "items")
    if not callable(items):
        return found
    try:
        for name, value in islice(items(), _MOST_HEADERS):
            if isinstance(name, str) and (isinstance(value, str) or is_number(value)):
                found.setdefault(name.lower(), value)
    except Exception:  # noqa: BLE001 - a foreign object may fail in any way; what came before is good
        return found
    return found


_RESET: Final = re.compile(
    r"(?:x-)?rate-?limit-(?:[a-z0-9-]{1,40}-)?reset(?:-[a-z0-9-]{1,40})?|anthropic-(?:ratelimit|priority)-[a-z0-9-]{1,40}-reset"
)
_IETF: Final = re.compile(r"; *([a-z]{1,10})=([0-9]{1,15})")
_IETF_EARLIER: Final = re.compile(r"\b(remaining|reset)=([0-9]{1,15})")


def _limits(fields: Mapping[str, str | float], now: Clock) -> Iterator[tuple[float | None, float]]:
    """Yield what is left of each limit, None if it isn't said, and the seconds until its reset."""
    for name, value in fields.items():
        if name == "ratelimit" and isinstance(value, str):
            yield from _ietf_limits(value[:_MOST_LIMITS])
        elif _RESET.fullmatch(name):
            wait = seconds_in(value, now)
            if wait is not None:
                left = fields.get(name.removesuffix("-after").replace("reset", "remaining", 1))
                yield _number(left), wait


def _ietf_limits(text: str) -> Iterator[tuple[float | None, float]]:
    """Yield the same of the header ``RateLimit``: ``"default";r=0;t=30``, or in drafts up to 7 ``limit=10, remaining=0, reset=30``."""
    earlier = dict(_IETF_EARLIER.findall(text))
    of_each = [{"r": earlier.get("remaining"), "t": earlier["reset"]}] if "reset" in earlier else None
    for limit in of_each or (dict(_IETF.findall(item)) for item in text.split(",")):
        wait = _number(limit.get("t"))
        if wait is not None:
            yield _number(limit.get("r")), min(wait, LONGEST_WAIT_S)


_ASKS: Final = frozenset({"retryafter", "retryafters", "retryafterseconds"})
_HEADERS: Final = frozenset({"headers", "responseheaders", "httpheaders"})
"""Names without ``-`` and ``_``, in lower case."""


def _in_one(value: object, now: Clock) -> float | None:
    """Return the wait that an object says itself, not one of those within."""
    if not isinstance(value, Mapping):
        return None if isinstance(value, (list, tuple)) else _length(_attribute(value, "retry_delay"))
    kind = value.get("@type")
    if isinstance(kind, str) and kind.endswith("google.rpc.RetryInfo"):
        return seconds_in(value.get("retryDelay"), now)
    for name, member in islice(value.items(), _MOST_MEMBERS):
        plain = name[:40].replace("_", "").replace("-", "").lower() if isinstance(name, str) else ""
        found = None
        if plain in _ASKS:
            found = seconds_in(member, now)
        elif plain == "retryafterms":
            found = _milliseconds(member)
        elif plain in _HEADERS:
            found = from_headers(member, now=now)
        if found is not None:
            return found
    return None


def _members(value: object) -> Iterator[object]:
    """Yield what is within an object or a list and may have something within itself."""
    within = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    for member in islice(within, _MOST_MEMBERS):
        if member is not None and not isinstance(member, (str, bytes, int, float)):
            yield member


def _attribute(holder: object, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - pydantic-ai's RunCancelled computes its response, and raises
        return None


def _decoded(data: object) -> object:
    """Return a body that is the text of a JSON object as the object."""
    try:
        return json.loads(data) if isinstance(data, str) and len(data) <= _MOST_BODY else data
    except (ValueError, RecursionError):
        return None
