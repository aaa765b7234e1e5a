"""What is closed when the process ends: emitters that nobody closed, so that their last events go or are kept.

Children of :mod:`multiprocessing` that are forked (forkserver's too) end with ``os._exit``: no ``atexit`` for them, but its own finalizers,
which a child forgets before it begins. So they are told in the child, after that.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import weakref
from typing import Final, Protocol

log: Final = logging.getLogger("switchgear.emitter")


class Leaving(Protocol):
    """Closed at the end."""

    def leave(self, waited_s: float) -> None:
        """The interpreter ends; others have taken ``waited_s`` seconds of the time for it already."""


class _Sign:
    """What multiprocessing knows us by; it holds it weakly."""


_open: Final[weakref.WeakSet[Leaving]] = weakref.WeakSet()
_sign: Final = _Sign()
_began: list[float] = []
"""When the interpreter began to end; empty until then."""


def leave_at_exit(one: Leaving) -> None:
    """Call ``one.leave()`` when the process ends, if anybody still holds it."""
    _open.add(one)
    _tell_multiprocessing()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        _leave_with_the_child()


def time_left(limit_s: float, exit_timeout_s: float) -> float:
    """``limit_s``; when the interpreter ends, no more than is left of ``exit_timeout_s``, that all clients have together."""
    for began in _began:
        limit_s = min(limit_s, max(0.0, began + exit_timeout_s - time.monotonic()))
    return limit_s


def _leave_all() -> None:
    began = time.monotonic()
    _began[:] = [began]
    try:
        for each in list(_open):
            try:
                each.leave(time.monotonic() - began)
            except Exception:
                log.exception("an emitter could not be closed at the end; the others are")
    finally:
        _began.clear()


def _tell_multiprocessing() -> None:
    util = sys.modules.get("multiprocessing.util")  # who has not imported it has no such children
    if util is not None:
        util.register_after_fork(_sign, _leave_with_the_child)


def _leave_with_the_child(_: object = None) -> None:
    util = sys.modules["multiprocessing.util"]
    util.Finalize(None, _leave_all, exitpriority=0)


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_tell_multiprocessing)
