"""What a user's classifier gives, checked: a wrong word or a wrong type must not reach the call, nor the fleet."""

from __future__ import annotations

import sys
from types import CoroutineType
from typing import Any, Final, get_args

from switchgear.classify.classification import Classification
from switchgear.numeric import is_number
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.words import ErrorClass

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
