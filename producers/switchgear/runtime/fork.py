"""Objects that reset themselves in the child of a fork, and work that a fork waits for."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from types import MethodType

_resets: Final[weakref.WeakKeyDictionary[object, Callable[[Any], object]]] = weakref.WeakKeyDictionary()
"""By object, the function that resets it."""


def call_in_child(reset: Callable[[], None]) -> None:
    """Call a bound method in every child of a fork, for as long as its object is alive.

    Locks that another thread held during the fork stay locked in the child. The method replaces them, and forgets what only
    the parent's threads can finish. Methods run in no particular order, so each resets its own object only.
    """
    method = cast("MethodType", reset)
    _resets[method.__self__] = method.__func__


def _reset_all() -> None:
    for owner, reset in list(_resets.items()):
        reset(owner)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_reset_all)


class _ForkGate:
    """``with gate:`` around work that a fork waits for, at most ``limit_s`` seconds. During a fork, other threads wait to enter."""

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


importing: Final = _ForkGate(5.0)
"""Imports in a background thread: a child that is forked meanwhile has half a module and a locked import."""
blocking_work: Final = _ForkGate(0.5)
"""Name look-ups and SQLite, which hold locks for milliseconds. A child that is forked meanwhile could never take them."""
