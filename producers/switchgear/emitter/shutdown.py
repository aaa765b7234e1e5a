"""The end of the process: every open emitter sends its last events, or keeps them in its spool.

Most processes run their ``atexit`` handlers at the end. Forked children of :mod:`multiprocessing` (those of a forkserver too) end with
``os._exit`` instead, after finalizers of their own. A child forgets its parent's finalizers, so they are registered in the
child. Daemonic children, such as the workers of a ``Pool``, usually end by SIGTERM: their parent sends it when the work is done.
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
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from switchgear.emitter.sender import Sender


log: Final = logging.getLogger("switchgear.emitter")


EXIT_TIMEOUT_S: Final = 10.0
"""The default. It is enough for a script that has just begun to connect, on a busy machine too."""
_JOIN_LIMIT_S: Final = 5.0
_HOPELESS_JOIN_S: Final = 0.2
_LEAST_S: Final = 1.0
_LAST_ATTEMPTS: Final = 2
_HANDLER_LIMIT_S: Final = 0.2


class Leaving(Protocol):
    """Something to close at the end of the process."""

    def leave(self, waited_s: float) -> None:
        """Close it. Others have used ``waited_s`` seconds of the time already."""


_open: Final[weakref.WeakSet[Leaving]] = weakref.WeakSet()


def leave_at_exit(one: Leaving) -> None:
    """Call ``one.leave()`` at the end of the process. The object is held weakly."""
    _open.add(one)
    _register_with_multiprocessing()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        _leave_with_the_child()


class LastFlush:
    """Decides how long one emitter waits at the end of the process.

    Args:
        exit_timeout_s: Longest wait, in seconds.
    """

    def __init__(self, exit_timeout_s: float) -> None:
        self._exit_timeout_s = exit_timeout_s
        self._deadline: float | None = None

    def begin(self, outbox: Sender, waited_s: float) -> float:
        """Return the longest wait in seconds. From now on the outbox's failures to connect count."""
        left_s = max(0.0, self._exit_timeout_s - waited_s)
        self._deadline = time.monotonic() + left_s
        outbox.failed_attempts = 0
        hung_s = 0.0 if outbox.connected else outbox.silent_s(time.monotonic())
        return min(left_s, max(_LEAST_S, self._exit_timeout_s - hung_s))

    def hopeless(self, outbox: Sender) -> bool:
        """Return whether to stop waiting: two attempts to connect have failed since the end began, or the broker has stopped answering."""
        if self._deadline is None:
            return False
        if outbox.connected:
            return outbox.silent_s(time.monotonic()) >= self._exit_timeout_s / 2
        return outbox.failed_attempts >= _LAST_ATTEMPTS

    def join_limit_s(self, *, flushed: bool) -> float:
        """Return how long the background thread may take to close its connections, in seconds."""
        if self._deadline is None:
            return _JOIN_LIMIT_S
        left_s = max(0.0, self._deadline - time.monotonic())
        return min(left_s, _JOIN_LIMIT_S if flushed else _HOPELESS_JOIN_S)


def _leave_all() -> None:
    began = time.monotonic()
    for each in list(_open):
        try:
            each.leave(time.monotonic() - began)
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C or a second SIGTERM ends the wait
            began = -math.inf
            each.leave(math.inf)
        except Exception:
            log.exception("an emitter could not be closed at the end of the process")


def leave_at_sigterm() -> None:
    """Make a daemonic child of multiprocessing send its last events at SIGTERM, unless it handles SIGTERM itself.

    This runs at the first event. Python lets only the main thread set signal handlers.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    if (
        multiprocessing is not None
        and multiprocessing.current_process().daemon
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        _SigtermThread().start()


class _SigtermThread(threading.Thread):
    """Waits for SIGTERM, sends the last events, and then lets the signal end the process.

    The signal handler can't do this itself, because it interrupts the main thread at any step. Two things went wrong:

    * The main thread may hold a lock that the background thread needs. It keeps the lock while its handler waits.
    * Python runs handlers between two steps of the main thread. A signal that comes just before the main thread begins to wait for
      a lock does not end that wait, so the handler may never run. The wake-up pipe of :mod:`signal` doesn't need the handler.
    """

    def __init__(self) -> None:
        super().__init__(name="switchgear-sigterm", daemon=True)
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._left = False

    def start(self) -> None:
        """Start it, and handle SIGTERM from now on. A forked child of this process gets the default back."""
        super().start()
        signal.signal(signal.SIGTERM, self._handle)
        others = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        if others != -1:  # an event loop runs here. It wakes at every signal, so the handler runs soon
            signal.set_wakeup_fd(others, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)

    def run(self) -> None:
        """Wait for SIGTERM, then end the process."""
        while signal.SIGTERM not in os.read(self._read_end, 1):
            pass
        _leave_all()
        self._left = True
        while True:  # only the main thread can set the default handler
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            time.sleep(_HANDLER_LIMIT_S)

    def _handle(self, _number: int, _frame: object) -> None:
        if self._left:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            with contextlib.suppress(BlockingIOError):  # the pipe is full of signals, so the thread wakes anyway
                os.write(self._write_end, bytes([signal.SIGTERM]))

    def _forget(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)


def _register_with_multiprocessing() -> None:
    util = sys.modules.get("multiprocessing.util")  # a process that has not imported it has no such children
    if util is not None:
        util.register_after_fork(_leave_with_the_child, _leave_with_the_child)


def _leave_with_the_child(_: object = None) -> None:
    util = sys.modules["multiprocessing.util"]
    util.Finalize(None, _leave_all, exitpriority=0)


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_register_with_multiprocessing)
