"""Which names of tools, servers and services the gateway takes: those that people, terminals and models can read without harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from switchgear_http.problem import ProblemError
from switchgear_schemas import visible
from switchgear_schemas.errors import InvalidExecutionError

ANY_SETTING: Final = "SWITCHGEAR_GATEWAY_ANY_NAMES"
_NAME: Final = re.compile(r"[\w.:/@ -]{1,256}")
_WRONG: Final = "must be 1 to 256 letters, digits, spaces or _ . : / @ -"
_SHOWN: Final = 100
_REMEMBERED: Final = 10_000

CheckName = Callable[[str, str], None]
"""Takes a field and the name in it. Raises InvalidExecutionError for a name that the gateway refuses."""


def check_name(field: str, name: str) -> None:
    """Check a name of a tool, a server or a service. An empty one is none.

    Raises:
        InvalidExecutionError: It has other characters, or too many.
    """
    if not _is_plain(name):
        raise InvalidExecutionError(field, f"{_WRONG}, got {visible.name(name[:_SHOWN])!r}")


def any_name(field: str, name: str) -> None:
    """Accept every name: the setting ``gateway_any_names``."""


def name_check(*, any_names: bool) -> CheckName:
    """Return the check by the setting ``gateway_any_names``."""
    return any_name if any_names else check_name


def check_request(check: CheckName, **names: str | None) -> None:
    """Check the names in a request.

    Args:
        check: The check.
        names: The names by their fields. None is none.

    Raises:
        ProblemError: One is refused (422).
    """
    for field, name in names.items():
        try:
            check(field, name or "")
        except InvalidExecutionError as error:
            hint = f"Use another name, or set {ANY_SETTING}=true at the gateway if you trust all who send names."
            raise ProblemError(422, f"{error}.", hint) from None


@lru_cache(_REMEMBERED)
def _is_plain(name: str) -> bool:
    """Return whether a name has only characters of the alphabet. Some letters can't be seen."""
    return not name or (_NAME.fullmatch(name) is not None and visible.line(name) == name)
