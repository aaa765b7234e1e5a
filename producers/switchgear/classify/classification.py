"""Classification: what kind of failure an exception or a result is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import CoroutineType
from typing import Any, Final, get_args

from switchgear.numeric import is_number
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.errors import SwitchgearError


@dataclass(frozen=True, slots=True)
class Classification:
    """``retry_after_s``: the wait in seconds that a rate-limited or overloaded tool asked for."""

    error_class: ErrorClass
    retry_after_s: float | None = None


IGNORE: Final = Classification("policy")
"""The call says nothing of the tool's health: it counts neither as a success nor as a failure.

For a rule (``classify``, ``classify_result``) to return; ``permit.ignore()`` says the same of one call. It is the class
``policy``, by which workers and readers of every version leave a call out.
"""


Classifier = Callable[[BaseException], "Classification | ErrorClass | None"]
"""A user's own rule; None leaves the exception to :func:`switchgear.classify.classify`."""


def attribute(owner: object, name: str) -> Any:
    """``owner.name``, None where there is none or reading it fails: a property of a foreign exception may do anything."""
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - it tells nothing then, and the call must not fail of it
        return None


def family(error: BaseException) -> frozenset[str]:
    """Top-level modules that the exception's type and its bases come from."""
    kind: Any = type(error)  # which is hashable, whatever mypy makes of it
    return _family(kind)


@lru_cache(maxsize=256)  # a tool fails with few types, again and again
def _family(kind: type[BaseException]) -> frozenset[str]:
    return frozenset(base.__module__.partition(".")[0] for base in kind.__mro__)


WORDS: Final[frozenset[Any]] = frozenset(get_args(ErrorClass))


def checked(found: object) -> Classification | None:
    """``found`` as a Classification: None says nothing, a class stands for itself.

    Raises:
        SwitchgearError: it is anything else, or a Classification of an unknown class or an impossible wait.
    """
    if found is None:
        return None
    if isinstance(found, str):
        found = Classification(found)  # type: ignore[arg-type]  # whether it is a class is asked below
    if not isinstance(found, Classification):
        if isinstance(found, CoroutineType):
            found.close()  # or Python complains that nobody awaits it
        raise SwitchgearError(
            f'A classification is None, a class such as "server" or a Classification, not {found!r:.100}.'
        )
    word, wait = found.error_class, found.retry_after_s
    if not isinstance(word, str) or word not in WORDS:
        raise SwitchgearError(f"There is no error class {word!r:.100}.", hint=f"There are: {', '.join(sorted(WORDS))}.")
    if wait is not None and not _sane(wait):
        raise SwitchgearError(f"retry_after_s is a number of seconds from 0 on, not {wait!r:.100}.")
    return found


def _sane(wait: object) -> bool:
    return is_number(wait) and 0 <= wait <= sys.float_info.max
