"""Detect with inotify whether a file is opened, even if its content never appears."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_ACCESS, _IN_OPEN = 0x1, 0x20
_IN_NONBLOCK = 0o4000
_EVENT_BYTES = 4096


class Watch:
    """Counts on the kernel from its making on; close it, or use it as ``with``."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_IN_NONBLOCK)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, bytes(path), _IN_ACCESS | _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def opened(self) -> bool:
        """The file was opened or read since the last time."""
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
