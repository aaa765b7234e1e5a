"""A lock between processes: ``flock`` on a file. The kernel frees it when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Self

_POLL_S = 0.05


class FileLock:
    """An exclusive lock on ``path``. The file's text is the holder's process id.

    Attributes:
        path: The lock file. ``acquire`` makes it and its folders. It is never removed: if it were, two processes could hold two
            locks of one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, timeout_s: float = 0.0) -> bool:
        """Take the lock, waiting at most ``timeout_s`` seconds. Return False if another process has it."""
        if self._descriptor is not None:
            raise RuntimeError(f"{self.path} is already held by this object.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return False
                time.sleep(_POLL_S)
            else:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                self._descriptor = descriptor
                return True

    def holder(self) -> int | None:
        """Return the process id that the present or last holder wrote, or None if the lock was never held."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def is_held(self) -> bool:
        """Return whether another process, or another object of this one, holds the lock.

        The check takes a shared lock for a moment. An ``acquire`` at that moment fails unless it waits.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def fileno(self) -> int:
        """Return the file descriptor. A child process that inherits it holds the lock too, also after ``release``.

        Raises:
            RuntimeError: The lock isn't held.
        """
        if self._descriptor is None:
            raise RuntimeError(f"{self.path} is not held by this object.")
        return self._descriptor

    def release(self) -> None:
        """Release the lock. Does nothing if it isn't held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        if not self.acquire():
            raise BlockingIOError(f"{self.path} is held by process {self.holder()}.")
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
