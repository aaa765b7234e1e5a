"""The end of the process: every emitter that is still open sends its last events, or keeps them in its spool.

Most processes end by way of ``atexit``, when the main script and all threads but daemons have ended. Children of
:mod:`multiprocessing` that are forked (forkserver's too) end with ``os._exit`` instead. They run finalizers of their own, which a
child forgets before it begins, so these are registered in the child. Daemonic children, such as the workers of a ``Pool``, are
ended by SIGTERM as a rule: their parent sends it when the work is done.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from switchgear.emitter.outbox import Outbox
    from switchgear.runtime.background_thread import Background


log: Final = logging.getLogger("switchgear.emitter")


EXIT_TIMEOUT_S: Final = 10.0
"""Unless a client says another time: a script that has just begun to connect gets through on a busy machine too."""
_JOIN_LIMIT_S: Final = 5.0
_HOPELESS_JOIN_S: Final = 0.2
_LEAST_S: Final = 1.0
_LAST_ATTEMPTS: Final = 2


class Leaving(Protocol):
    """Closed at the end."""

    def leave(self, waited_s: float) -> None:
        """The process ends; others have taken ``waited_s`` seconds of the time for it already."""


class _Sign:
    """What multiprocessing knows us by; it holds it weakly."""


_open: Final[weakref.WeakSet[Leaving]] = weakref.WeakSet()
_sign: Final = _Sign()
_began: list[float] = []
"""When the process began to end; empty until then."""


def leave_at_exit(one: Leaving) -> None:
    """Call ``one.leave()`` when the process ends, if anybody still holds it."""
    _open.add(one)
    _tell_multiprocessing()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        _leave_with_the_child()


def time_left(limit_s: float, exit_timeout_s: float) -> float:
    """``limit_s``; when the process ends, no more than is left of ``exit_timeout_s``, that all clients have together."""
    for began in _began:
        limit_s = min(limit_s, max(0.0, began + exit_timeout_s - time.monotonic()))
    return limit_s


class LastFlush:
    """How long one emitter waits at the end of the process, and when it gives up before."""

    def __init__(self, background: Background, outbox: Callable[[], Outbox | None], exit_timeout_s: float) -> None:
        self._background = background
        self._outbox = outbox
        self._exit_timeout_s = exit_timeout_s
        self._begun = False
        background.on_start.append(_leave_at_sigterm)

    def begin(self, waited_s: float) -> float:
        """Connect now where that had been put off. Returns the seconds to wait at most."""
        self._begun = True
        left = max(0.0, self._exit_timeout_s - waited_s)
        outbox = self._outbox()
        if outbox is None:
            return left
        outbox.failed_attempts = 0
        with contextlib.suppress(Exception):  # there is no thread any more: nothing to hurry
            self._background.run(outbox.hurry())
        hung_s = 0.0 if outbox.connected else outbox.silent_s(time.monotonic())
        return min(left, max(_LEAST_S, self._exit_timeout_s - hung_s))

    def hopeless(self) -> bool:
        """Two attempts to connect have failed since the process began to end, or a connected broker has stopped answering."""
        outbox = self._outbox()
        if not self._begun or outbox is None:
            return False
        if outbox.connected:
            return outbox.silent_s(time.monotonic()) >= self._exit_timeout_s / 2
        return outbox.failed_attempts >= _LAST_ATTEMPTS

    def join_limit_s(self, *, flushed: bool) -> float:
        """Seconds for the background thread to close its connections."""
        return time_left(_HOPELESS_JOIN_S if self._begun and not flushed else _JOIN_LIMIT_S, self._exit_timeout_s)


def _leave_all() -> None:
    began = time.monotonic()
    _began[:] = [began]
    try:
        for each in list(_open):
            try:
                each.leave(time.monotonic() - began)
            except (KeyboardInterrupt, SystemExit):  # Ctrl-C, or a second SIGTERM: wait no longer
                began = _began[0] = -math.inf
                each.leave(math.inf)
            except Exception:
                log.exception("an emitter could not be closed at the end; the others are")
    finally:
        _began.clear()


def _leave_at_sigterm() -> None:
    """In a daemonic child of multiprocessing that does not handle SIGTERM itself, send the last events at SIGTERM too.

    Called when the first event is there. Python lets none but the main thread handle signals.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    if (
        multiprocessing is not None
        and multiprocessing.current_process().daemon
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _leave_and_terminate)


def _leave_and_terminate(_number: int, _frame: object) -> None:
    _leave_all()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _tell_multiprocessing() -> None:
    util = sys.modules.get("multiprocessing.util")  # who has not imported it has no such children
    if util is not None:
        util.register_after_fork(_sign, _leave_with_the_child)


def _leave_with_the_child(_: object = None) -> None:
    util = sys.modules["multiprocessing.util"]
    util.Finalize(None, _leave_all, exitpriority=0)


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_tell_multiprocessing)
