"""Read recorded calls: JSON lines, plain or gzipped, from a file or the standard input, one line at a time."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from switchgear_schemas.enums import MAX_EVENT_BYTES
from switchgear_schemas.errors import InvalidExecutionError, SwitchgearError
from switchgear_schemas.files import open_file
from switchgear_schemas.wire import Execution, decode_execution

_GZIP_MAGIC: Final = b"\x1f\x8b"
_LONGEST: Final = MAX_EVENT_BYTES + 1


class HistoryError(SwitchgearError):
    """The file is missing, unreadable or a damaged gzip file."""


class HistoryLine(NamedTuple):
    """One line that is not blank.

    Attributes:
        number: Number of the line, from 1.
        raw: The line without its ending. A line longer than an event may be is cut.
        event: The execution, without its unknown fields. None if the line is not an execution.
        reason: Why the line is not an execution.
        field: The wrong field. Empty if the line as a whole is wrong.
    """

    number: int
    raw: bytes
    event: Execution | None
    reason: str = ""
    field: str = ""


def read_history(path: str | Path) -> Iterator[HistoryLine]:
    """Yield the lines of ``path`` in order, with bounded memory. ``-`` is the standard input.

    Gzip is recognised by its first two bytes, whatever the name. Blank lines are skipped, but they have a number.

    Raises:
        HistoryError: The file can't be read, or is a damaged gzip file. The lines before the damage come first.
    """
    number = 0
    try:
        with _open(path) as source:
            while raw := source.readline(_LONGEST):
                number += 1
                rest = raw
                while len(rest) == _LONGEST and not rest.endswith(b"\n"):
                    rest = source.readline(_LONGEST)
                if not raw.isspace():
                    yield parse_line(number, raw.rstrip(b"\r\n"))
    except FileNotFoundError:
        raise HistoryError(
            f"There is no file {path}.", hint="Check the path, or give - for the standard input."
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise HistoryError(
            f"{path} is a damaged gzip file after line {number}: {error}.", hint="Fetch or write the file again."
        ) from None
    except OSError as error:
        raise HistoryError(
            f"{path} can't be read after line {number}: {error.strerror or error}.",
            hint="Give a file, or - for the standard input.",
        ) from None


def parse_line(number: int, raw: bytes) -> HistoryLine:
    """Decode and check one line. An invalid line is returned with the reason."""
    try:
        return HistoryLine(number, raw, decode_execution(raw))
    except InvalidExecutionError as error:
        return HistoryLine(number, raw, None, error.reason, error.field)


@contextmanager
def _open(path: str | Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        # The standard input stays open: the caller may go on to read it.
        source: Any = sys.stdin.buffer if str(path) == "-" else stack.enter_context(open_file(path))
        if not isinstance(source, io.BufferedReader):
            source = io.BufferedReader(source)
        if source.peek(2)[:2] == _GZIP_MAGIC:
            source = stack.enter_context(gzip.open(source))
        yield source
