"""Read a recording, twice if its clock is shifted: the shift needs the last instant first."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from switchgear.redaction import redact
from switchgear_api.replay.history import HistoryLine, read_history
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution import EARLIEST, LATEST
from switchgear_schemas.ids import mint_metric_id


@dataclass(frozen=True, slots=True)
class Extent:
    """First and last instant of a recording (None if no line has a clock), and its number of lines."""

    first: datetime | None
    last: datetime | None
    lines: int


@contextmanager
def rereadable(source: str) -> Iterator[str]:
    """Yield a path that can be read twice. Standard input is copied to a temporary file."""
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


_encode: Final = msgspec.json.encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Prepared(NamedTuple):
    """A record ready to send. ``recorded_at`` is its clock after any shift, or None if the line had none."""

    tool: str
    value: bytes
    recorded_at: datetime | None


def recorded_at(line: HistoryLine) -> datetime | None:
    """Return the line's own clock in UTC, or None if it has none. A clock without an offset is UTC."""
    moment = None if line.event is None else line.event.recorded_at
    if moment is None or moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def prepare(line: HistoryLine, *, shift: timedelta | None, now: datetime, service: str | None) -> Prepared:
    """Convert a line to a record. Unknown fields stay; a line without changes is sent byte for byte.

    Args:
        line: a line that is an execution.
        shift: added to the line's clock.
        now: stamped on a line without a clock.
        service: overrides the line's.

    Raises:
        InvalidExecutionError: naming the field, for what ClickHouse would refuse.
    """
    event = line.event
    if event is None:
        raise InvalidExecutionError(line.field, line.reason)
    moment = recorded_at(line)
    changes: dict[str, Any] = {}
    if event.metric_id is None:
        changes["metric_id"] = mint_metric_id()
    if moment is None:
        changes["recorded_at"] = now
    elif shift is not None:
        moment = changes["recorded_at"] = _shifted(moment, shift)
    if service is not None:
        changes["service"] = service
    message = event.error_message
    if message and (clean := redact(message)) != message:
        changes["error_message"] = clean
    return Prepared(event.tool_name, _encode(_decode(line.raw) | changes) if changes else line.raw, moment)


def _shifted(moment: datetime, shift: timedelta) -> datetime:
    moment += shift
    if not EARLIEST <= moment < LATEST:
        raise InvalidExecutionError("recorded_at", f"lies outside {EARLIEST.year} to {LATEST.year} after the shift")
    return moment
