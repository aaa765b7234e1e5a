"""Imports in the background, and forks: a child that is made amid an import would have half of a module for ever."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Final

_LIMIT_S: Final = 5.0


class _Importing:
    """Held while the background imports something large; a fork waits for it, for at most five seconds."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held_for_fork = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        """Wait for the import."""
        self._held_for_fork = self._lock.acquire(timeout=_LIMIT_S)

    def after_fork_in_parent(self) -> None:
        """Let imports go on."""
        if self._held_for_fork:
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """A lock of the child's own."""
        self._lock = threading.RLock()


importing: Final = _Importing()

os.register_at_fork(
    before=importing.before_fork,
    after_in_parent=importing.after_fork_in_parent,
    after_in_child=importing.after_fork_in_child,
)
