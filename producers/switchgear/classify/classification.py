"""The class of a failure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_args

from switchgear.arguments import is_number
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.errors import SwitchgearError

_ERROR_CLASSES: Final = get_args(ErrorClass)


@dataclass(frozen=True, slots=True)
class Classification:
    """The class of a failure."""

    error_class: ErrorClass
    retry_after_s: float | None = None
    """The seconds that a rate-limited or overloaded tool asks to wait."""


IGNORE: Final = Classification("policy")
"""Return it from a rule (``classify``, ``classify_result``) for a call that counts neither as a success nor as a failure.

``permit.ignore()`` does the same for one call. The class is ``policy``, which workers and readers of every version leave out.
"""

Classifier = Callable[[BaseException], "Classification | ErrorClass | None"]
"""A user's rule. It returns None to leave the exception to :func:`switchgear.classify.classify`."""


def checked(given: Any) -> Classification | None:
    """Return what a user's rule returned as a Classification, or None.

    Raises:
        SwitchgearError: It isn't None, an error class or a Classification; or its class or wait is impossible.
    """
    if given is None:
        return None
    found = given if isinstance(given, Classification) else Classification(given)
    if found.error_class not in _ERROR_CLASSES:
        hint = f"Use None, a Classification, or one of {', '.join(_ERROR_CLASSES)}."
        raise SwitchgearError(f"The error class {found.error_class!r:.100} is unknown.", hint=hint)
    wait = found.retry_after_s
    if wait is not None and not (is_number(wait) and 0 <= wait <= sys.float_info.max):
        raise SwitchgearError(f"retry_after_s is {wait!r:.100}.", hint="Use a number of seconds of at least 0.")
    return found
