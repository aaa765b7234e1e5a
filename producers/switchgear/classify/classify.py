"""From an exception to its class."""

from __future__ import annotations

import logging
from typing import Final, Literal, NamedTuple

from switchgear.classify.by_code import by_aws_code, by_body, by_mcp_code, by_sqlstate
from switchgear.classify.by_status import by_status
from switchgear.classify.by_type import by_builtin, by_library
from switchgear.classify.classification import Classification, attribute, family
from switchgear.classify.grpc import by_grpc_code
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass

log: Final = logging.getLogger("switchgear.classify")
_troubles: Final = BoundedLog(log)

_CANCELLED: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_RULES: Final = (by_aws_code, by_grpc_code, by_mcp_code, by_status, by_body, by_sqlstate)
"""First answer decides: what the exception says of itself, before its type."""
_DEEPEST: Final = 5
_SURE: Final[frozenset[ErrorClass]] = frozenset({"transport", "timeout", "server", "rate_limited"})


def classify(error: BaseException) -> Classification:
    """Classify by what the exception carries (an HTTP status, a code of AWS, gRPC, MCP or SQL), else by its type.

    * A cancelled call (also by ``KeyboardInterrupt`` or a closed generator) is ``cancelled``: never a failure.
    * 429 is ``rate_limited`` and 5xx ``server``, with ``Retry-After``; 408 and 504 ``timeout``; 401, 402, 403 and 407
      ``auth``; any other 4xx ``invalid_input``.
    * ``TimeoutError`` is ``timeout``; ``ConnectionError``, failed name look-ups, TLS and other ``OSError`` are ``transport``,
      except ``PermissionError`` (``auth``) and missing or existing files (``invalid_input``).
    * ``TypeError`` and ``ValueError`` are ``invalid_input``: the tool works, its argument does not. An answer that is not
      JSON or not text (``JSONDecodeError``, ``UnicodeDecodeError``) is ``server``.
    * A refusal of another guarded tool within this one (``CircuitOpenError``) is ``policy``: that one is broken, not this.
    * An exception group is what its most telling member is: first what counts against a tool.
    * Everything else is ``unknown``, which counts: also ``KeyError`` and ``AttributeError``, an answer of unexpected shape;
      unless it was raised ``from`` an exception that says for sure that the tool is down, limited or slow, or that carries
      its verdict (a status, a code, a refusal). A ``ValueError`` or ``TypeError`` raised ``from`` an outage that a client
      library tells of is that outage.

    Never raises, and imports none of the libraries it knows.
    """
    try:
        return _seen(error, 0).found
    except Exception:
        log.exception("could not classify %s", type(error).__name__)
        return Classification("unknown")


class _Seen(NamedTuple):
    """``by``: what told it: the exception itself, the type of a client library, a built-in type, or nothing."""

    found: Classification
    by: Literal["carried", "library", "builtin", "nothing"]


def _seen(error: BaseException, depth: int) -> _Seen:
    if isinstance(error, _CANCELLED):
        return _Seen(Classification("cancelled"), "builtin")
    if isinstance(error, BaseExceptionGroup):
        seen = (_seen(member, depth + 1) for member in members(error))
        return min(seen, key=lambda one: (telling(one.found), one.by == "carried"))
    told = _carried(error)
    if told is not None:
        return _Seen(told, "carried")
    inner = wrapped(error)
    if inner is not None and depth < _DEEPEST:
        return _seen(inner, depth + 1)
    return _by_type_or_cause(error, depth)


def _carried(error: BaseException) -> Classification | None:
    for rule in _RULES:
        try:
            found = rule(error)
        except Exception as trouble:  # noqa: BLE001 - a foreign exception's method failed; the other rules are left
            _troubles.warning(f"could not classify {type(error).__name__} {rule.__name__.replace('_', ' ')}", trouble)
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
    """What an exception that says nothing is: a sure outage, or whatever carries its verdict."""
    return cause.found.error_class in _SURE or cause.by == "carried"


def _is_outage_of_a_client(cause: _Seen) -> bool:
    """A ValueError from a built-in TimeoutError or JSONDecodeError may be about an argument; from a client's error it is not."""
    return cause.found.error_class in _SURE and cause.by in {"carried", "library"}


def _is_mistake(error: BaseException, found: ErrorClass) -> bool:
    return found == "invalid_input" and isinstance(error, (ValueError, TypeError))


MAX_MEMBERS: Final = 100
"""Exceptions of a group that are looked at."""

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
"""Evidence of a broken tool comes before what may be one, and that before what is none."""


def members(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions of a group and of groups within it, without the groups; at most ``MAX_MEMBERS``."""
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
    """Of several, the least is the most telling: by class, then the longest wait."""
    return _MOST_TELLING.index(found.error_class), -(found.retry_after_s or 0.0)


def wrapped(error: BaseException) -> BaseException | None:
    """What a wrapper of a known kind wraps: urllib's and urllib3's ``reason``, SQLAlchemy's ``orig``, tenacity's last attempt."""
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
