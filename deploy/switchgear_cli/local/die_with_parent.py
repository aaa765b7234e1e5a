"""Start a program that dies with its parent: ``python -I -S tether.py PARENT_PID PROGRAM ARGUMENT…``.

The kernel is asked (``prctl(PR_SET_PDEATHSIG, SIGKILL)``, kept over ``execve``) to kill the program when the process
that started it is gone, so ``kill -9`` of a supervisor leaves nothing behind. It is a program of its own because the
same call in ``preexec_fn`` runs Python between fork and exec in a process that may have threads. Standard library
only; it costs about 15 ms. Linux only: elsewhere the program starts untethered.

The kernel ties the program to the *thread* that started it: start die_with_parent programs from the main thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with_parent(command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` die_with_parent to the calling process.

    Raises:
        RuntimeError: Not called in the main thread (the program would die with the thread).
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("A die_with_parent program must be started from the main thread.")
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(arguments: Sequence[str]) -> None:
    """Tie this process to its parent, then become the program."""
    parent, program = int(arguments[0]), list(arguments[1:])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != parent:  # it died before the call above
            raise SystemExit(1)
    os.execv(program[0], program)  # noqa: S606 - replacing this process is the purpose; no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
