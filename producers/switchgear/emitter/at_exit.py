"""What is closed when the interpreter ends: emitters that nobody closed, so that their last events go or are kept."""

from __future__ import annotations

import atexit
import weakref
from typing import Final, Protocol


class Leaving(Protocol):
    """Closed at the end."""

    def leave(self) -> None:
        """The interpreter ends."""


_open: Final[weakref.WeakSet[Leaving]] = weakref.WeakSet()


def leave_at_exit(one: Leaving) -> None:
    """Call ``one.leave()`` when the interpreter ends, if anybody still holds it."""
    _open.add(one)


def _leave_all() -> None:
    for each in list(_open):
        each.leave()


atexit.register(_leave_all)
