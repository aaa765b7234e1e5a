"""Detect with inotify whether a process opens a file."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_ACCESS, _IN_OPEN = 0x1, 0x20
_IN_NONBLOCK = 0o4000
_EVENT_BYTES = 4096


class FileMonitor:
    """Monitors a file from its creation on. Close it, or use it with ``with``."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_IN_NONBLOCK)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, bytes(path), _IN_ACCESS | _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def opened(self) -> bool:
        """Return whether the file was opened or read since the last call."""
        try:
            return bool(os.read(self._descriptor, _EVENT_BYTES))
        except BlockingIOError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
