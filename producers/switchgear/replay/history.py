"""Read recorded calls: JSON lines, plain or gzipped, from a file or the standard input, one line at a time."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from switchgear_schemas.enums import EARLIEST, MAX_EVENT_BYTES
from switchgear_schemas.errors import InvalidExecutionError, SwitchgearError
from switchgear_schemas.wire import Execution, decode_execution

_GZIP_MAGIC: Final = b"\x1f\x8b"
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class HistoryError(SwitchgearError):
    """The file is missing, unreadable or a damaged gzip file."""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line that is not blank.

    Attributes:
        number: Number of the line, from 1.
        raw: The line without its ending. A line longer than an event may be is cut.
        event: The decoded execution with its unknown fields. None if the line is not an execution.
        reason: Why the line is not an execution.
        field: The wrong field. Empty if the line as a whole is wrong.
    """

    number: int
    raw: bytes
    event: dict[str, Any] | None
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
            for number, raw in _lines(source):
                if raw and not raw.isspace():
                    yield parse_line(number, raw)
    except FileNotFoundError:
        raise HistoryError(
            f"There is no file {path}.", hint="Check the path, or give - for the standard input."
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise HistoryError(
            f"{path} is a damaged gzip file after line {number}: {error}.", hint="Fetch or write the file again."
        ) from None
    except OSError as error:
        raise HistoryError(f"{path} can't be read after line {number}: {error.strerror or error}.") from None


def parse_line(number: int, raw: bytes) -> HistoryLine:
    """Decode and check one line. An invalid line is returned with the reason."""
    try:
        decode_execution(raw)
    except InvalidExecutionError as error:
        return HistoryLine(number, raw, None, error.reason, error.field)
    return HistoryLine(number, raw, _decode(raw))


@contextmanager
def _open(path: str | Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        # The standard input stays open: the caller may go on to read it.
        opened: BinaryIO = sys.stdin.buffer if str(path) == "-" else stack.enter_context(Path(path).open("rb"))
        source = opened if isinstance(opened, io.BufferedReader) else io.BufferedReader(opened)  # type: ignore[type-var]
        if source.peek(2)[:2] == _GZIP_MAGIC:
            yield io.BufferedReader(stack.enter_context(gzip.GzipFile(fileobj=source)))
        else:
            yield source


def _lines(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines without their ending. Of a line that is too long, yield the first ``MAX_EVENT_BYTES + 1`` bytes."""
    number = 0
    limit = MAX_EVENT_BYTES + 1
    while line := source.readline(limit):
        number += 1
        if len(line) == limit and not line.endswith(b"\n"):
            while (rest := source.readline(limit)) and not rest.endswith(b"\n"):
                pass
        yield number, line.rstrip(b"\r\n")


class UndatedCallError(SwitchgearError):
    """A call has no ``recorded_at``, and the caller gave no interval for such calls."""


class StampedClock:
    """Returns the instants of calls, in seconds since 1970.

    Args:
        interval_s: Seconds between calls that have no ``recorded_at``, the first at 2000-01-01. None refuses such calls.
    """

    def __init__(self, interval_s: float | None = None) -> None:
        self._interval_s = interval_s
        self.stamped = 0
        """Number of calls that got a synthetic instant."""

    def end_of(self, call: Execution, line: int) -> float:
        """Return when ``call`` ended.

        Raises:
            UndatedCallError: The call has no instant, and there is no interval.
        """
        at = call.recorded_at
        if at is not None:
            return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        if self._interval_s is None:
            raise UndatedCallError(
                f"Line {line} has no recorded_at.", hint="Give --stamp SECONDS to lay such calls that far apart."
            )
        self.stamped += 1
        return EARLIEST.timestamp() + (self.stamped - 1) * self._interval_s
