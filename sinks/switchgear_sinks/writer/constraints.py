"""Find the rows of a batch that break a constraint of their table, with one query instead of one insert per row."""

from __future__ import annotations

import asyncio
import re
from operator import attrgetter
from typing import Final

import msgspec
import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_schemas.errors import InvalidExecutionError
from switchgear_sinks.clickhouse_errors import InsertFailureKind, classify_insert_failure
from switchgear_sinks.migrations.retention import literal
from switchgear_sinks.store import Store
from switchgear_sinks.writer.rows import Rows

log = structlog.get_logger()

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
    """Return the name of the constraint in ClickHouse's message; None if it names none."""
    found = _NAME.search(reason)
    return None if found is None else found[1]


class Constraints:
    """Finds the rows that break a constraint of one table."""

    def __init__(self, store: Store, table: str) -> None:
        self._store = store
        self._table = table

    async def reject(self, name: str, rows: Rows) -> int:
        """Turn the rows that break constraint ``name`` into dead letters, and return how many.

        Only rows that have a value for every column of the constraint are checked. For the others ClickHouse's defaults
        decide, so they are left for ClickHouse to name. The same holds for all rows if the constraint can't be read.

        Raises:
            ClickHouseError: One that passes by itself: try again.
        """
        try:
            found = await self._violators(name, rows)
        except ClickHouseError as error:
            if classify_insert_failure(error).kind is InsertFailureKind.RETRY:
                raise
            log.warning("a constraint cannot be checked", table=self._table, constraint=name, reason=str(error)[:300])
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
        data = await asyncio.to_thread(_values_of, rows.values, columns)
        if not data:
            return None
        structure = ", ".join([f"`{_INDEX}` UInt64", *(f"`{column}` {kinds[column][0]}" for column in columns)])
        answer = await self._store.raw_query(
            f"SELECT `{_INDEX}` FROM format(JSONCompactEachRow, {literal(structure)}, {literal(data)}) "  # noqa: S608 - the table's own constraint; the rows are escaped
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


def _values_of(values: list[bytes], columns: list[str]) -> str:
    """Return a line ``[index, value, …]`` for each row that has all of ``columns``, with the values as they are in the row."""
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
