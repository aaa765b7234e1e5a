"""What a failed insert means: try again, one row is bad, or stop."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

RETRIABLE: Final = frozenset(
    {
        3,  # UNEXPECTED_END_OF_FILE: the connection broke; values are valid JSON, so it is not in them
        74,  # CANNOT_READ_FROM_FILE_DESCRIPTOR
        75,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR
        76,  # CANNOT_OPEN_FILE
        107,  # FILE_DOESNT_EXIST
        159,  # TIMEOUT_EXCEEDED
        164,  # READONLY
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        236,  # ABORTED
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        319,  # UNKNOWN_STATUS_OF_INSERT
        394,  # QUERY_WAS_CANCELLED
        425,  # SYSTEM_ERROR
        439,  # CANNOT_SCHEDULE_TASK
        999,  # KEEPER_EXCEPTION
    }
)
"""ClickHouse's numbers that pass by themselves: clickhouse-kafka-connect's list (Utils.java), and those of a full disk."""

_ROW: Final = re.compile(r"\(at row (\d+)\)|violated at row (\d+)")
_DISK: Final = re.compile(r"No space left on device|NOT_ENOUGH_SPACE|Cannot reserve .* not enough space", re.IGNORECASE)


class Kind(Enum):
    """What to do."""

    RETRY = "retry"
    ROW = "row"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``row`` counts from 0; ``reason`` is one line for people; ``disk_full`` asks for a word on space."""

    kind: Kind
    reason: str
    code: int | None = None
    row: int | None = None
    disk_full: bool = False


def judge(error: BaseException) -> Verdict:
    """Classify what an insert raised.

    A number from the retriable list comes first: "Memory limit exceeded … (at row 7)" says nothing about row 7. An error
    without a number came from the way to ClickHouse (refused, reset, a proxy's 502), and passes.
    """
    text = " ".join(str(error).split())
    reason = text[:500] or type(error).__name__
    if isinstance(error, OSError):
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        return Verdict(Kind.RETRY, reason, disk_full=full)
    if not isinstance(error, ClickHouseError):
        return Verdict(Kind.STOP, reason)
    code = getattr(error, "code", None)
    full = _DISK.search(text) is not None
    if full or code in RETRIABLE:
        return Verdict(Kind.RETRY, reason, code, disk_full=full)
    row = _ROW.search(text)
    if row is not None:
        return Verdict(Kind.ROW, _short(text), code, row=int(row[1] or row[2]) - 1)
    if code is None and isinstance(error, (OperationalError, DatabaseError)):
        return Verdict(Kind.RETRY, reason)
    return Verdict(Kind.STOP, reason, code)


def _short(text: str) -> str:
    """The sentence about the row, without the file, the version and the repetition around it."""
    body = text.rsplit("DB::Exception: ", 1)[-1]
    return re.split(r": \(in file/uri|: While executing|\(version ", body)[0].strip()[:500]
