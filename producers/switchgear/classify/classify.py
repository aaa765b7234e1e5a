"""Classify an exception."""

from __future__ import annotations

import logging
from typing import Final, Literal, NamedTuple

from switchgear.classify.by_code import (
    by_adk_type,
    by_aws_code,
    by_body,
    by_grpc_code,
    by_itself,
    by_mcp_code,
    by_sqlstate,
    by_status,
)
from switchgear.classify.by_type import ErrorType, type_of
from switchgear.classify.classification import IGNORE, Classification
from switchgear.classify.tool_failure import is_refusal
from switchgear.classify.waits import of_error
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import ErrorClass

_warnings: Final = BoundedLog(logging.getLogger("switchgear.classify"))

_CANCELLED: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_RULES: Final = (by_itself, by_aws_code, by_grpc_code, by_mcp_code, by_adk_type, by_status, by_body, by_sqlstate)
"""The first answer decides. What the exception carries comes before its type."""
_DEEPEST: Final = 5
"""How many exceptions within one another to look at."""
MAX_MEMBERS: Final = 100
"""The most exceptions of a group to look at."""
_MOST_SIGNIFICANT: Final[tuple[ErrorClass, ...]] = (
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
"""Outages come first, then what may be one, then the rest."""
_OUTAGES: Final = frozenset(_MOST_SIGNIFICANT[:4])
_GENERIC: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input", "unknown"})
"""The classes of types that frameworks raise for a failed tool, whatever failed."""
_MAX_TEXT: Final = 2_000
"""The most characters of a message to look at."""
_ASKS_FOR_INPUT: Final = "Server returned InputRequiredResult; "
"""How the message of MCP's ``ClientSession`` begins if the server wants input first. It is a RuntimeError."""


def classify(error: BaseException) -> Classification:
    """Return the class of an exception, by what it carries (a status, a code) and then by its type. Never raises.

    * A cancelled call, also by ``KeyboardInterrupt`` or a closed generator, is ``cancelled``. A guard makes a ``timeout`` of it if
      its caller gave up after it was overdue.
    * 429 is ``rate_limited``, and 5xx is ``server``. 429, 503 and 529 have the wait that was asked for: see
      :mod:`switchgear.classify.waits`. 408 and 504 are ``timeout``. 401, 402, 403 and 407 are ``auth``. 499 is ``cancelled``.
      Other 4xx are ``invalid_input``. A redirect is ``tool``.
    * ``TimeoutError`` is ``timeout``. ``OSError`` is ``transport``: connections, name lookups, TLS. Of its subclasses,
      ``PermissionError`` is ``auth``, and missing or existing files are ``invalid_input``.
    * ``TypeError`` and ``ValueError`` are ``invalid_input``: the tool works, but its argument is wrong. ``JSONDecodeError``
      and ``UnicodeDecodeError`` are ``server``: the answer is unreadable.
    * ``CircuitOpenError`` is ``policy``: another tool, which this one calls, is unavailable. So is an exception of a general
      type, such as ``ToolError``, whose message is the text of a refusal.
    * Control flow of agent frameworks is ``policy``: interrupts, approvals, handoffs, requests for input.
    * An exception group has the class of the member that says most about the tool.
    * Everything else is ``unknown``, which counts. ``KeyError`` and ``AttributeError`` belong here: the answer has an
      unexpected shape.

    The cause decides for an ``unknown`` exception that was raised ``from`` a clear outage or from an exception that carries a
    status or code. It also decides for a ``ValueError`` or ``TypeError`` raised ``from`` an outage in a client library, and for
    a framework's ``ToolError``, ``ToolException`` or ``ModelRetry`` raised ``from`` an outage or a refusal.
    """
    try:
        return _seen(error, 0).found
    except Exception as trouble:  # noqa: BLE001 - a library's exception may fail in any way; the call must not
        _warnings.warning(f"could not classify {type(error).__name__}", trouble)
        return Classification("unknown")


class _Classified(NamedTuple):
    """A classification and its source."""

    found: Classification
    by: Literal["carried", "library", "builtin"]
    """What the exception carries, the type of a client library, or a built-in type."""


def _seen(error: BaseException, depth: int) -> _Classified:
    if isinstance(error, _CANCELLED):
        return _Classified(Classification("cancelled"), "builtin")
    if depth < _DEEPEST and isinstance(error, BaseExceptionGroup):
        return min((_seen(member, depth + 1) for member in error.exceptions[:MAX_MEMBERS]), key=_order)
    if _says_policy(error):
        return _Classified(IGNORE, "carried")
    carried = _carried(error)
    if carried is not None:
        return _Classified(carried, "carried")
    inner = _wrapped(error)
    return _by_type(error, depth) if inner is None or depth >= _DEEPEST else _seen(inner, depth + 1)


def _by_type(error: BaseException, depth: int) -> _Classified:
    """Return the class of the type or of the cause."""
    kind = type_of(error)
    found = _by_name(kind)
    if kind.by_library is not None and found not in _GENERIC:
        wait = of_error(error) if found == "rate_limited" else None
        return _Classified(Classification(found, wait), "carried" if found == "policy" else "library")
    cause = None if error.__cause__ is None or depth >= _DEEPEST else _seen(error.__cause__, depth + 1)
    if cause is not None and _decides(cause, error):
        return cause
    of_library = kind.by_library is not None or isinstance(error, ConnectionError)
    return _Classified(Classification(found), "library" if of_library else "builtin")


def _by_name(kind: ErrorType) -> ErrorClass:
    return kind.by_library or kind.by_builtin or "unknown"


def _order(seen: _Classified) -> tuple[int, float, bool]:
    """Return a sort key. What says most about the tool is the smallest; the longest wait breaks ties."""
    found = seen.found
    return _MOST_SIGNIFICANT.index(found.error_class), -(found.retry_after_s or 0.0), seen.by == "carried"


def _carried(error: BaseException) -> Classification | None:
    found = next((found for rule in _RULES if (found := rule(error)) is not None), None)
    if found is None or found.error_class != "rate_limited" or found.retry_after_s is not None:
        return found
    return Classification("rate_limited", of_error(error))


def _says_policy(error: BaseException) -> bool:
    """Return whether the message of an exception of a general type is a refusal of another guard, or a request for input."""
    if _by_name(type_of(error)) not in _GENERIC:
        return False
    try:
        text = str(error)[:_MAX_TEXT]
    except Exception:  # noqa: BLE001 - a message that can't be read says nothing; the type still does
        return False
    return is_refusal(text) or (isinstance(error, RuntimeError) and text.startswith(_ASKS_FOR_INPUT))


def _decides(cause: _Classified, error: BaseException) -> bool:
    """Return whether a cause decides for ``error``, whose type is unknown, or says only that a tool failed or was misused."""
    kind, by_cause = type_of(error), cause.found.error_class
    found, is_outage = _by_name(kind), by_cause in _OUTAGES
    if found == "unknown":
        return is_outage or cause.by == "carried"
    if kind.by_library is not None:
        # A built-in exception of class server is about a text that can't be read, which may be an argument.
        return by_cause == "policy" or (is_outage and (by_cause, cause.by) != ("server", "builtin"))
    # Raised from a built-in TimeoutError or JSONDecodeError, it may be about an argument.
    return (
        is_outage and cause.by != "builtin" and found == "invalid_input" and isinstance(error, (ValueError, TypeError))
    )


def _wrapped(error: BaseException) -> BaseException | None:
    """Return the exception inside a wrapper: urllib's ``reason``, SQLAlchemy's ``orig``, tenacity's last attempt. Else None."""
    libraries = type_of(error).libraries
    found: object = None
    if libraries & {"urllib", "urllib3"}:
        found = getattr(error, "reason", None)
    elif "sqlalchemy" in libraries:
        found = getattr(error, "orig", None)
    elif "tenacity" in libraries:
        last = getattr(error, "last_attempt", None)
        found = None if last is None else last.exception()
    return found if isinstance(found, BaseException) else None
