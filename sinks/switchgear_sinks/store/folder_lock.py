"""Lock a folder of the embedded engine for one process. A second process gets an error with the first one's pid.

chDB itself only says ``Error initializing EmbeddedServer``. The stores of one process share the folder and its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from switchgear_schemas.errors import StoreUnavailableError
from switchgear_schemas.file_lock import FileLock

LOCK_NAME: Final = "switchgear.lock"
_guard: Final = threading.Lock()
_held: Final[dict[Path, tuple[FileLock, int]]] = {}  # folder -> (its lock, users in this process)


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
                lock, users = _held[resolved]
                _held[resolved] = (lock, users + 1)
                return resolved
            lock = FileLock(resolved / LOCK_NAME)
            if not lock.acquire():
                raise StoreUnavailableError(
                    f"The ClickHouse data in {resolved} is open in another process (pid {lock.holder() or 'unknown'}).",
                    hint="Stop that process, use its HTTP API, or choose another folder with --data-dir.",
                )
            try:
                if prepare is not None:
                    prepare(resolved)
            except BaseException:
                lock.release()
                raise
            _held[resolved] = (lock, 1)
            return resolved
    except OSError as error:
        raise StoreUnavailableError(
            f"The ClickHouse folder {folder} cannot be used: {error.strerror or error}.",
            hint="Free space or correct its rights, or choose another folder with --data-dir.",
        ) from error


def release(resolved: Path) -> None:
    """Undo one :func:`acquire`. The last one of the process unlocks the folder."""
    with _guard:
        lock, users = _held[resolved]
        if users > 1:
            _held[resolved] = (lock, users - 1)
            return
        del _held[resolved]
        lock.release()
