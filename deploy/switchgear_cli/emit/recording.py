"""A recording that may have to be read twice: a shift of the clock needs its last instant first."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from switchgear.history import read_history
from switchgear_cli.emit.prepare import recorded_at


@dataclass(frozen=True, slots=True)
class Extent:
    """First and last instant of a recording, None where no line has a clock, and its number of lines."""

    first: datetime | None
    last: datetime | None
    lines: int


@contextmanager
def rereadable(source: str) -> Iterator[str]:
    """A path that can be read again: the standard input is copied to a temporary file first."""
    if source != "-":
        yield source
        return
    with tempfile.NamedTemporaryFile(prefix="switchgear-emit-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield str(Path(file.name))


def extent(source: str) -> Extent:
    """Read the whole recording once, for its clock.

    Raises:
        HistoryError: it can't be read.
    """
    first: datetime | None = None
    last: datetime | None = None
    lines = 0
    for line in read_history(source):
        lines += 1
        moment = recorded_at(line)
        if moment is not None:
            first = moment if first is None else min(first, moment)
            last = moment if last is None else max(last, moment)
    return Extent(first, last, lines)
