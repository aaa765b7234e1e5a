"""ForkSafe: a lock that another thread held during a fork would be held for ever in the child."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from types import TracebackType
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


_IMPORT_LIMIT_S: Final = 5.0
_LOOKUP_LIMIT_S: Final = 0.5
"""The resolver holds its locks for milliseconds, also where a name server takes seconds to answer."""


class _ForkGate:
    """``with gate:`` around what a fork waits for. Any number may be inside, but during a fork every other thread waits to enter."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._start_afresh()
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork_in_parent, after_in_child=self._start_afresh
        )

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def _start_afresh(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0

    def _before_fork(self) -> None:
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._inside, self._limit_s)

    def _after_fork_in_parent(self) -> None:
        self._changed.release()


importing: Final = _ForkGate(_IMPORT_LIMIT_S)
looking_up: Final = _ForkGate(_LOOKUP_LIMIT_S)
