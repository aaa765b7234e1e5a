"""Lock a folder of the embedded engine for one process. A second process gets an error with the first one's pid.

chDB itself only says ``Error initializing EmbeddedServer``. The stores of one process share the folder and its lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from switchgear_schemas.errors import StoreUnavailableError

LOCK_NAME: Final = "switchgear.lock"
_guard: Final = threading.Lock()
_held: Final[dict[Path, tuple[int, int]]] = {}  # folder -> (file descriptor, users in this process)


def acquire(folder: Path, prepare: Callable[[Path], object] | None = None) -> Path:
    """Lock ``folder`` for this process, create it if it is missing, and return its resolved path.

    The first store of the process calls ``prepare`` with that path, before any store uses the folder.

    Raises:
        StoreUnavailableError: Another process holds it, or it can't be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        resolved = folder.resolve()
        with _guard:
            if resolved in _held:
                descriptor, users = _held[resolved]
                _held[resolved] = (descriptor, users + 1)
                return resolved
            descriptor = os.open(resolved / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
                os.close(descriptor)
                raise StoreUnavailableError(
                    f"The ClickHouse data in {resolved} is open in another process (pid {owner}).",
                    hint="Stop that process, use its HTTP API, or choose another folder with --data-dir.",
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            try:
                if prepare is not None:
                    prepare(resolved)
            except BaseException:
                os.close(descriptor)
                raise
            _held[resolved] = (descriptor, 1)
            return resolved
    except OSError as error:
        raise StoreUnavailableError(
            f"The ClickHouse folder {folder} cannot be used: {error.strerror or error}.",
            hint="Free space or correct its rights, or choose another folder with --data-dir.",
        ) from error


def release(resolved: Path) -> None:
    """Undo one :func:`acquire`. The last one of the process unlocks the folder."""
    with _guard:
        descriptor, users = _held[resolved]
        if users > 1:
            _held[resolved] = (descriptor, users - 1)
            return
        del _held[resolved]
        os.close(descriptor)  # closing unlocks
