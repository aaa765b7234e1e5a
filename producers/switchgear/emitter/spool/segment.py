"""Segment: one append-only file of frames."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from switchgear.emitter.spool.frame import LARGEST, Parsed, parse

SUFFIX: Final = ".segment"
CHUNK: Final = 1_048_576
"""Bytes read at a time; more only where one frame is larger."""


class Segment:
    """A file named by its number, so that names sort in the order of writing. Read while it is written, by one thread.

    Attributes:
        number: Its place among the segments of its folder.
        size: Bytes in it.
        read_to: Where the next :meth:`read` begins.
        unread: Records beyond it.
        failures: How often it could not be read.

    Args:
        folder: Where it lies.
        number: See above.
        found: It exists and holds something; else it is made by the first :meth:`append`.

    Raises:
        OSError: a found one can't be looked at.
    """

    __slots__ = ("_file", "failures", "number", "path", "read_to", "size", "unread")

    def __init__(self, folder: Path, number: int, *, found: bool = False) -> None:
        self.number = number
        self.path = folder / f"{number:012d}{SUFFIX}"
        self.size = self.path.stat().st_size if found else 0
        self.unread = 0
        self.read_to = 0
        self.failures = 0
        self._file: int | None = None

    def gone(self, *, leaving: bool) -> bool:
        """Somebody deleted it. One that is open can still be read, but not by anybody else when the process is ``leaving``.

        Raises:
            OSError: it can't be looked at.
        """
        if self._file is not None and not leaving:
            return False
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        return False

    @property
    def open(self) -> bool:
        """It has a file descriptor: it is being written, or was deleted and has something unread."""
        return self._file is not None

    @property
    def intact(self) -> bool:
        """More may be appended: the file is the one that was written, and as long.

        Raises:
            OSError: it can't be looked at.
        """
        if self._file is None:
            return False
        ours = os.fstat(self._file)
        try:
            return os.path.samestat(self.path.stat(), ours) and ours.st_size == self.size
        except (FileNotFoundError, NotADirectoryError):
            return False

    def append(self, frames: bytes, records: int, *, fsync: bool) -> None:
        """Hand ``frames`` to the operating system, all or nothing.

        Raises:
            OSError: the disk is full, read-only or broken; the file is cut back to what it was, or ends with a torn frame.
        """
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        written = 0
        view = memoryview(frames)
        try:
            while written < len(frames):
                written += os.write(self._file, view[written:])
            if fsync:
                os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(frames)
        self.unread += records

    def read(self, most: int) -> tuple[int, Parsed]:
        """Up to ``most`` of the next records; returns where their ends count from, in bytes of this file.

        Raises:
            OSError: the file can't be read.
        """
        start = self.read_to
        file = self._file
        opened = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC) if file is None else file
        try:
            for length in (CHUNK, LARGEST + CHUNK):
                wanted = min(length, self.size - start)
                data = os.pread(opened, wanted, start)
                if len(data) < wanted:  # somebody cut it: it ends here
                    self.size = start + len(data)
                found = parse(data, most=most, last=start + len(data) >= self.size or not data)
                if found.entries or found.damaged or start + len(data) >= self.size:
                    break
        finally:
            if file is None:
                os.close(opened)
        self.failures = 0
        self.read_to = start + found.consumed if data else self.size
        self.unread = 0 if self.read_to >= self.size else max(0, self.unread - len(found.entries))
        return start, found

    def count(self) -> int:
        """Count what is unread by reading it all, then stand again where it stood; returns how many stretches are damaged.

        Raises:
            OSError: the file can't be read.
        """
        start, records, damaged = self.read_to, 0, 0
        while self.read_to < self.size:
            _, found = self.read(1_000_000)
            records += len(found.entries)
            damaged += found.damaged
        self.read_to, self.unread = start, records
        return damaged

    def seal(self) -> None:
        """Nothing more is appended. One that was deleted stays open, or what is unread in it would be lost."""
        if self._file is not None and not (self.unread and os.fstat(self._file).st_nlink == 0):
            self.close()

    def close(self) -> None:
        """Give the file descriptor back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def remove(self) -> None:
        """Delete the file; what can't be deleted now is a leftover for later."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
