"""Classify an exception."""

from __future__ import annotations

import logging
from typing import Final, Literal, NamedTuple

from switchgear.classify.by_code import by_aws_code, by_body, by_grpc_code, by_mcp_code, by_sqlstate
from switchgear.classify.by_status import by_status
from switchgear.classify.by_type import by_builtin, by_library
from switchgear.classify.classification import Classification, attribute, family
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass

log: Final = logging.getLogger("switchgear.classify")
_warnings: Final = BoundedLog(log)

_CANCELLED: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_RULES: Final = (by_aws_code, by_grpc_code, by_mcp_code, by_status, by_body, by_sqlstate)
"""The first answer decides. What the exception carries comes before its type."""
_DEEPEST: Final = 5
_SURE: Final[frozenset[ErrorClass]] = frozenset({"transport", "timeout", "server", "rate_limited"})


def classify(error: BaseException) -> Classification:
    """Return the class of an exception, by what it carries (a status, a code) and then by its type. Never raises.

    * A cancelled call, also by ``KeyboardInterrupt`` or a closed generator, is ``cancelled`` and never counts.
    * 429 is ``rate_limited`` and 5xx is ``server``, both with ``Retry-After``. 408 and 504 are ``timeout``. 401, 402, 403 and
      407 are ``auth``. Other 4xx are ``invalid_input``.
    * ``TimeoutError`` is ``timeout``. ``OSError`` is ``transport``: connections, name lookups, TLS. Of its subclasses,
      ``PermissionError`` is ``auth``, and missing or existing files are ``invalid_input``.
    * ``TypeError`` and ``ValueError`` are ``invalid_input``: the tool works, but its argument is wrong. ``JSONDecodeError``
      and ``UnicodeDecodeError`` are ``server``: the answer is unreadable.
    * ``CircuitOpenError`` is ``policy``: another tool, which this one calls, is unavailable.
    * An exception group has the class of the member that says most about the tool.
    * Everything else is ``unknown``, which counts. ``KeyError`` and ``AttributeError`` belong here: the answer has an
      unexpected shape.

    The cause decides for an ``unknown`` exception that was raised ``from`` a clear outage or from an exception that carries a
    status or code. It also decides for a ``ValueError`` or ``TypeError`` raised ``from`` an outage in a client library.
    """
    try:
        return _seen(error, 0).found
    except Exception:
        log.exception("could not classify %s", type(error).__name__)
        return Classification("unknown")


class _Seen(NamedTuple):
    """A classification and its source."""

    found: Classification
    by: Literal["carried", "library", "builtin", "nothing"]
    """What the exception carries, the type of a client library, a built-in type, or nothing."""


def _seen(error: BaseException, depth: int) -> _Seen:
    if isinstance(error, _CANCELLED):
        return _Seen(Classification("cancelled"), "builtin")
    if isinstance(error, BaseExceptionGroup):
        seen = (_seen(member, depth + 1) for member in members(error))
        return min(seen, key=lambda one: (telling(one.found), one.by == "carried"))
    carried = _carried(error)
    if carried is not None:
        return _Seen(carried, "carried")
    inner = wrapped(error)
    if inner is not None and depth < _DEEPEST:
        return _seen(inner, depth + 1)
    return _by_type_or_cause(error, depth)


def _carried(error: BaseException) -> Classification | None:
    for rule in _RULES:
        try:
            found = rule(error)
        except Exception as trouble:  # noqa: BLE001 - a method of a library's exception failed; the other rules remain
            _warnings.warning(f"could not classify {type(error).__name__} {rule.__name__.replace('_', ' ')}", trouble)
        else:
            if found is not None:
                return found
    return None


def _by_type_or_cause(error: BaseException, depth: int) -> _Seen:
    named = by_library(error)
    if named is not None:
        return _Seen(Classification(named), "carried" if named == "policy" else "library")
    found = by_builtin(error)
    if error.__cause__ is not None and depth < _DEEPEST and (found is None or _is_mistake(error, found)):
        cause = _seen(error.__cause__, depth + 1)
        if _excuses_or_explains(cause) if found is None else _is_outage_of_a_client(cause):
            return cause
    if found is None:
        return _Seen(Classification("unknown"), "nothing")
    return _Seen(Classification(found), "library" if isinstance(error, ConnectionError) else "builtin")


def _excuses_or_explains(cause: _Seen) -> bool:
    """Return whether a cause decides for an exception of unknown class."""
    return cause.found.error_class in _SURE or cause.by == "carried"


def _is_outage_of_a_client(cause: _Seen) -> bool:
    """Return whether a cause decides for a ValueError or TypeError.

    One that was raised from a built-in TimeoutError or JSONDecodeError may be about an argument.
    """
    return cause.found.error_class in _SURE and cause.by in {"carried", "library"}


def _is_mistake(error: BaseException, found: ErrorClass) -> bool:
    return found == "invalid_input" and isinstance(error, (ValueError, TypeError))


MAX_MEMBERS: Final = 100
"""The most exceptions of a group to look at."""

_MOST_TELLING: Final[tuple[ErrorClass, ...]] = (
    "transport",
    "timeout",
    "server",
    "rate_limited",
    "unknown",
    "auth",
    "tool",
    "invalid_input",
    "policy",
    "cancelled",
)
"""Evidence of a broken tool comes first, then what may be one, then the rest."""


def members(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions of a group and of the groups within it, at most ``MAX_MEMBERS``."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting and len(found) < MAX_MEMBERS:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(reversed(one.exceptions[:MAX_MEMBERS]))
        else:
            found.append(one)
    return found


def telling(found: Classification) -> tuple[int, float]:
    """Return a sort key. The classification that says most about the tool is the smallest; the longest wait breaks ties."""
    return _MOST_TELLING.index(found.error_class), -(found.retry_after_s or 0.0)


def wrapped(error: BaseException) -> BaseException | None:
    """Return the exception inside a wrapper: urllib's ``reason``, SQLAlchemy's ``orig``, tenacity's last attempt. Else None."""
    libraries = family(error)
    found: object = None
    if libraries & {"urllib", "urllib3"}:
        found = attribute(error, "reason")
    elif "sqlalchemy" in libraries:
        found = attribute(error, "orig")
    elif "tenacity" in libraries:
        last = attribute(attribute(error, "last_attempt"), "exception")
        found = last() if callable(last) else None
    return found if isinstance(found, BaseException) else None
