"""ForkSafe: a lock that another thread held during a fork would be held for ever in the child."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from typing import Final


class ForkSafe(ABC):
    """An object whose :meth:`forked` is called in every child of a fork, for as long as somebody holds it."""

    def __init__(self) -> None:
        _owners.add(self)

    @abstractmethod
    def forked(self) -> None:
        """In a child of a fork: make the lock anew, forget what only the parent's threads could finish."""


_owners: Final[weakref.WeakSet[ForkSafe]] = weakref.WeakSet()


def _in_child() -> None:
    for owner in list(_owners):
        owner.forked()


if hasattr(os, "register_at_fork"):  # no fork on Windows
    os.register_at_fork(after_in_child=_in_child)
