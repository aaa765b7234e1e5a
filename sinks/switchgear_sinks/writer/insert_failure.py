"""What a failed insert means: try again, one row is bad, or stop."""

from __future__ import annotations

import asyncio
import errno
import re
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Final

import msgspec
import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

from switchgear_schemas.errors import InvalidExecutionError
from switchgear_sinks.migrations.retention import literal
from switchgear_sinks.store import Store
from switchgear_sinks.writer.rows import Rows

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


log = structlog.get_logger()

VIOLATED: Final = 469
"""ClickHouse's VIOLATED_CONSTRAINT."""
_NAME: Final = re.compile(r"Constraint `([^`]+)`")
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_WORD: Final = re.compile(r"`([^`]+)`|\b([A-Za-z_]\w*)\b")
_COLUMNS: Final = (
    "SELECT name, type, default_kind FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
)
_STORED: Final = ("", "DEFAULT")
_INDEX: Final = "row index"
_ABSENT: Final = (b"", b"null")
_SETTINGS: Final = {
    "date_time_input_format": "best_effort",
    "input_format_null_as_default": 1,
    "input_format_json_read_objects_as_strings": 1,
    "max_query_size": 1 << 30,  # the rows are in it
    "log_queries": 0,
}


def constraint_of(reason: str) -> str | None:
    """The constraint's name in what ClickHouse says; None where it names none."""
    found = _NAME.search(reason)
    return None if found is None else found[1]


class Constraints:
    """Asks about one table."""

    def __init__(self, store: Store, table: str) -> None:
        self._store = store
        self._table = table

    async def reject(self, name: str, rows: Rows) -> int:
        """Make the rows that break constraint ``name`` dead letters; returns how many.

        Only rows that spell out every column in question are judged: for the others ClickHouse's defaults decide, and it
        is left to name them itself. The same holds where the constraint cannot be read.

        Raises:
            ClickHouseError: one that passes: try again.
        """
        try:
            found = await self._violators(name, rows)
        except ClickHouseError as error:
            if judge(error).kind is Kind.RETRY:
                raise
            log.warning(
                "a constraint cannot be asked about", table=self._table, constraint=name, reason=str(error)[:300]
            )
            return 0
        if found is None:
            return 0
        expression, bad = found
        for index in sorted(bad):
            reason = f"ClickHouse refuses the row: constraint `{name}` is violated: {expression}"
            rows.reject(rows.records[index], InvalidExecutionError("", reason[:500]))
        rows.remove(bad)
        return len(bad)

    async def _violators(self, name: str, rows: Rows) -> tuple[str, set[int]] | None:
        expression = await self._expression(name)
        if expression is None:
            return None
        described = (await self._store.query(_COLUMNS, {"table": self._table})).result_rows
        kinds: dict[str, tuple[str, str]] = {row[0]: (row[1], row[2]) for row in described}
        words = {quoted or word for quoted, word in _WORD.findall(_QUOTED.sub("", expression))}
        columns = sorted(words & kinds.keys())
        if not columns or any(kinds[column][1] not in _STORED for column in columns):
            return None
        data = await asyncio.to_thread(_spelled_out, rows.values, columns)
        if not data:
            return None
        structure = ", ".join([f"`{_INDEX}` UInt64", *(f"`{column}` {kinds[column][0]}" for column in columns)])
        answer = await self._store.raw_query(
            f"SELECT `{_INDEX}` FROM format(JSONCompactEachRow, {literal(structure)}, {literal(data)}) "  # noqa: S608 - the table's own constraint, the rows escaped
            f"WHERE NOT ({expression})",
            settings=_SETTINGS,
            fmt="TabSeparated",
        )
        return expression, {int(line) for line in answer.split()}

    async def _expression(self, name: str) -> str | None:
        created = await self._store.query(f"SHOW CREATE TABLE {self._table}")
        text = str(created.result_rows[0][0])
        found = re.search(rf"^\s+CONSTRAINT `?{re.escape(name)}`? CHECK (.+?),?$", text, re.MULTILINE)
        return None if found is None else found[1]


def _spelled_out(values: list[bytes], columns: list[str]) -> str:
    """``[index, value, …]`` of the rows that have all of ``columns``, a line each; the values as they stand in the row."""
    asked = msgspec.defstruct("Asked", [(column, msgspec.Raw, msgspec.Raw()) for column in columns], gc=False)
    decode = msgspec.json.Decoder(asked).decode
    pick = attrgetter(*columns)
    lines = []
    for index, value in enumerate(values):
        picked = pick(decode(value))
        found = [bytes(each) for each in (picked if len(columns) > 1 else (picked,))]
        if all(each not in _ABSENT for each in found):
            lines.append(b"[%d,%b]" % (index, b",".join(found)))
    return b"\n".join(lines).decode()
