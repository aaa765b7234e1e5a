"""Let a crash end the process.

The embedded engine catches the signals of a crash when it is loaded, and waits five minutes for a thread that would print a report.
chDB has no such thread. Meanwhile the process holds Python's lock: it neither works nor ends, so nothing starts it again.
Seen with chDB 26.9.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import signal
from typing import Final

_CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


def end_at_crashes() -> None:
    """Give the signals of a crash back to the system: it ends the process at once. Call it after the engine was loaded, in any thread.

    The stacks of all Python threads go to standard error, unless the process uses ``faulthandler`` in its own way.
    """
    library = ctypes.CDLL(None)  # signal.signal() works in the main thread only
    library.signal.argtypes, library.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    for number in _CRASHES:
        library.signal(int(number), None)
    if not faulthandler.is_enabled():
        with contextlib.suppress(RuntimeError, ValueError, OSError):  # standard error is closed
            faulthandler.enable()
