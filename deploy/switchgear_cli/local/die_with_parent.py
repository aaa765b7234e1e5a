"""Start a program that ends when its parent ends.

``python -I -S die_with_parent.py PARENT_PID PROGRAM ARGUMENT…`` asks the kernel to kill the program when its parent is gone
(``prctl(PR_SET_PDEATHSIG, SIGKILL)``, kept over ``execve``). So ``kill -9`` of a supervisor leaves nothing behind.

This is a program of its own because the same call in ``preexec_fn`` runs Python between fork and exec, in a process that may have
threads. It uses the standard library only. It works on Linux; elsewhere the program outlives its parent.

The kernel binds the program to the *thread* that started it, so start programs from the main thread.
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
    """Return the command line that runs ``command`` so that it ends with the calling process.

    Raises:
        RuntimeError: Not called in the main thread (the program would die with the thread).
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("A die_with_parent program must be started from the main thread.")
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(arguments: Sequence[str]) -> None:
    """Bind this process to its parent, then become the program."""
    parent, program = int(arguments[0]), list(arguments[1:])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != parent:  # the parent died before the call above
            raise SystemExit(1)
    os.execv(program[0], program)  # noqa: S606 - replacing this process is the purpose; no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
