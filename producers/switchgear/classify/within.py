"""What is within an exception that only wraps another, or several."""

from __future__ import annotations

from typing import Final

from switchgear.classify.classification import Classification, attribute, family
from switchgear_schemas.words import ErrorClass

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
