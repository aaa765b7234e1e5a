"""ClickHouse's errors: their numbers, their text, and what a failed insert means.

The names of the numbers are those of ``src/Common/ErrorCodes.cpp`` in ClickHouse.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

TABLE_ALREADY_EXISTS: Final = 57
UNKNOWN_TABLE: Final = 60
INCORRECT_DATA: Final = 117
NOT_ALLOWED: Final = frozenset(
    {
        164,  # READONLY
        291,  # DATABASE_ACCESS_DENIED
        392,  # QUERY_IS_PROHIBITED
        446,  # FUNCTION_NOT_ALLOWED
        497,  # ACCESS_DENIED
    }
)
TIMED_OUT: Final = frozenset(
    {
        159,  # TIMEOUT_EXCEEDED
        160,  # TOO_SLOW
    }
)
TOO_LARGE: Final = frozenset(
    {
        158,  # TOO_MANY_ROWS
        241,  # MEMORY_LIMIT_EXCEEDED
        307,  # TOO_MANY_BYTES
        396,  # TOO_MANY_ROWS_OR_BYTES
    }
)
INTERNAL: Final = frozenset(
    {
        40,  # CHECKSUM_DOESNT_MATCH
        49,  # LOGICAL_ERROR
        74,  # CANNOT_READ_FROM_FILE_DESCRIPTOR
        76,  # CANNOT_OPEN_FILE
        107,  # FILE_DOESNT_EXIST
        226,  # NO_FILE_IN_DATA_PART
        271,  # CANNOT_DECOMPRESS
        1000,  # POCO_EXCEPTION
        1001,  # STD_EXCEPTION
        1002,  # UNKNOWN_EXCEPTION
    }
)
"""Failures of ClickHouse itself or of its files, which another query does not avoid."""
RETRIABLE: Final = frozenset(
    {
        3,  # UNEXPECTED_END_OF_FILE: the connection broke. The values are valid JSON, so they are not the cause
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
"""Failures of an insert that pass by themselves: the list of clickhouse-kafka-connect (Utils.java), and those of a full disk."""

_CODE: Final = re.compile(r"Code: (\d+)\b")
_PREFIX: Final = re.compile(r"^(?:.*?Code: \d+\. )?(?:DB::Exception: )+", re.DOTALL)
_NOISE: Final = re.compile(
    r"\s*\(version [^)]*\)|\s*\(for url [^)]*\)|\s*\(official build\)|\.?\s*\([A-Z][A-Z0-9_]+\)\s*\.?\s*$"
)
_AROUND_A_ROW: Final = re.compile(r": \(in file/uri|: While executing|\(version ")
_ROW: Final = re.compile(r"\(at row (\d+)\)|violated at row (\d+)")
_DISK: Final = re.compile(r"No space left on device|NOT_ENOUGH_SPACE|Cannot reserve .* not enough space", re.IGNORECASE)
_MAX_MESSAGE: Final = 600
_MAX_REASON: Final = 500
_MAX_READ: Final = 20_000


def clickhouse_code(error: BaseException) -> int | None:
    """Return ClickHouse's number of the error; None if ClickHouse did not raise it."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return code
    matched = _CODE.search(str(error))
    return int(matched.group(1)) if matched else None


def clickhouse_message(error: BaseException) -> str:
    """Return the message as one line, without its prefixes, versions and addresses."""
    text = str(error)[:_MAX_READ]
    while (stripped := _PREFIX.sub("", text, count=1)) != text:
        text = stripped
    # The message may quote a long query, written to make the pattern below slow.
    text = " ".join(text.split())[: 2 * _MAX_MESSAGE]
    while (stripped := _NOISE.sub("", text)) != text:
        text = stripped
    line = " ".join(text.split())
    line = line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]}…"
    return line if line.endswith((".", "…", "!", "?")) else f"{line}."


class InsertFailureKind(Enum):
    """What the writer does about a failed insert."""

    RETRY = "retry"
    REJECT_ROW = "reject_row"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class InsertFailure:
    """Why an insert failed.

    Args:
        kind: What to do about it.
        reason: ClickHouse's message as one line.
        code: ClickHouse's number of the error, if it gave one.
        row: The row that ClickHouse names, counted from 0; only for ``REJECT_ROW``.
        disk_full: ClickHouse has no space left.
    """

    kind: InsertFailureKind
    reason: str
    code: int | None = None
    row: int | None = None
    disk_full: bool = False


def classify_insert_failure(error: BaseException) -> InsertFailure:
    """Decide what the error of an insert means.

    The number is looked at before the row: "Memory limit exceeded … (at row 7)" is not a fault of row 7. An error
    without a number came from the way to ClickHouse (connection refused, reset, a proxy's 502), so it passes.
    """
    text = " ".join(str(error).split())
    reason = text[:_MAX_REASON] or type(error).__name__
    if isinstance(error, OSError):
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        return InsertFailure(InsertFailureKind.RETRY, reason, disk_full=full)
    if not isinstance(error, ClickHouseError):
        return InsertFailure(InsertFailureKind.STOP, reason)
    code = getattr(error, "code", None)
    full = _DISK.search(text) is not None
    if full or code in RETRIABLE:
        return InsertFailure(InsertFailureKind.RETRY, reason, code, disk_full=full)
    row = _ROW.search(text)
    if row is not None:
        index = int(row[1] or row[2]) - 1
        return InsertFailure(InsertFailureKind.REJECT_ROW, _about_the_row(text), code, row=index)
    if code is None and isinstance(error, (OperationalError, DatabaseError)):
        return InsertFailure(InsertFailureKind.RETRY, reason)
    return InsertFailure(InsertFailureKind.STOP, reason, code)


def _about_the_row(text: str) -> str:
    """Return the sentence about the row, without the file and the version around it."""
    body = text.rsplit("DB::Exception: ", 1)[-1]
    return _AROUND_A_ROW.split(body)[0].strip()[:_MAX_REASON]
