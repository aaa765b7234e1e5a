"""Cursor: how far a journal was acknowledged, and how far it was handed to Kafka, in a file that outlives the process."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

_FORM: Final = struct.Struct("<QQQQ")
_CRC: Final = struct.Struct("<I")


class Position(NamedTuple):
    """A place in a journal: segment number, byte in it. Positions compare in the order of writing."""

    segment: int
    byte: int


START: Final = Position(0, 0)
END: Final = Position(2**63, 0)


class Marks(NamedTuple):
    """Everything before ``acknowledged`` is in Kafka; what lies between it and ``handed`` may be; the rest is not."""

    acknowledged: Position
    handed: Position


class Cursor:
    """The file. Written by one small ``pwrite``: a process that is killed leaves the old marks or the new ones."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cursor"
        self._file: int | None = None
        self._saved: Marks | None = None

    def load(self) -> Marks:
        """The marks of the former owner. Without a file nothing was handed over; a damaged one says nothing: anything may have been."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return Marks(START, START)
        if (
            len(data) != _FORM.size + _CRC.size
            or zlib.crc32(data[: _FORM.size]) != _CRC.unpack_from(data, _FORM.size)[0]
        ):
            return Marks(START, END)
        numbers = _FORM.unpack_from(data)
        return Marks(Position(*numbers[:2]), Position(*numbers[2:]))

    def save(self, marks: Marks, *, fsync: bool) -> None:
        """Write the marks where they differ from the last ones.

        Raises:
            OSError: the disk won't have it.
        """
        if marks == self._saved:
            return
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = _FORM.pack(*marks.acknowledged, *marks.handed)
        os.pwrite(self._file, data + _CRC.pack(zlib.crc32(data)), 0)
        if fsync:
            os.fsync(self._file)
        self._saved = marks

    def close(self) -> None:
        """Give the file descriptor back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
