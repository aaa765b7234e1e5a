"""Forks wait for imports and name lookups in the background.

A child that is forked during an import keeps half of a module. One that is forked while another thread holds a lock of the
C library's resolver looks up no name any more. So a fork waits until they are done, for a bounded time.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Final

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
