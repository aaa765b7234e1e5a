"""ToolErrorsRepository: what fails, how often, since when."""

# ruff: noqa: S608 - the SQL is put together of our own names only; every value is bound

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from switchgear_schemas.execution import ErrorClass
from switchgear_sinks.repository.queries import (
    NOT_CANCELLED,
    TOOLS_OWN,
    Conditions,
    checked_limit,
    microseconds,
    select,
    template,
)
from switchgear_sinks.store import Database

_TYPE: Final = (
    "multiIf(error_type != '', error_type, status = 'timeout', 'timeout', error_class != '', error_class, 'unknown')"
)
_CLASS: Final = "multiIf(error_class != '', error_class, status = 'timeout', 'timeout', 'unknown')"
_CALLER: Final = f"if({TOOLS_OWN}, '', error_class)"
_TALLY: Final = """count() AS n, argMax(error_message, recorded_at) AS example,
    min(recorded_at) AS first_seen, max(recorded_at) AS last_seen"""


_QUARTER_US: Final = 900_000_000


class ToolErrorsRepository:
    """Reads of ``tool_errors``: errors and timeouts, grouped. Cancelled calls are neither.

    Args:
        db: A clickhouse-connect client (sync or async, HTTP or chDB) or a Store, with the store's database selected.
        tenant: Only this tenant's rows; None: everybody's.
    """

    def __init__(self, db: Any, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._tenant = tenant

    async def count(self, tool_name: str, since: datetime, classes: Collection[ErrorClass] | None = None) -> int:
        """Errors and timeouts of a tool recorded since then.

        Args:
            tool_name: Whose.
            since: Included.
            classes: Only errors of these classes. As in the breaker, a timeout without a class is of class ``timeout``, an
                error without one of class ``unknown``. None: all.
        """
        where = Conditions(self._tenant).equal("tool_name", tool_name).recorded(since, None)
        if classes is None:
            where.that(NOT_CANCELLED)
        else:
            where.that(f"{_CLASS} IN {{classes:Array(String)}}", classes=sorted(classes))
        return int((await self._db.rows(select("count() AS n", "tool_errors", where), where.parameters))[0]["n"])

    async def types(self, tool_name: str | None = None, since: datetime | None = None) -> list[dict[str, Any]]:
        """Errors by tool and type, most frequent first.

        Each has ``tool_name``, ``error_type``, ``caller_error`` (its class; None for errors that say something of the tool),
        ``count``, ``example`` (the newest message), ``first_seen``, ``last_seen``.
        An error that names no type goes by its status or class, e.g. ``timeout``. With ``since``, from the counts a
        quarter of an hour, and from the errors themselves in the quarter that it cuts: the same numbers, but errors that were
        removed from ``tool_errors`` are still in them.
        """
        where = Conditions(self._tenant).equal("tool_name", tool_name)
        raw = f"""SELECT tool_name, {_TYPE} AS type, {_CALLER} AS caller, count() AS n, min(recorded_at) AS first_seen,
            max(recorded_at) AS last_seen, argMaxState(error_message, recorded_at) AS said FROM tool_errors"""
        also = f"{where} AND" if str(where) else "WHERE"
        times: dict[str, int] = {}
        if since is None:
            sources = f"{raw} {also} {NOT_CANCELLED} GROUP BY tool_name, type, caller"
        else:
            times = {"since": microseconds(since), "quarter": -(-microseconds(since) // _QUARTER_US) * _QUARTER_US}
            sources = f"""{raw} {also} {NOT_CANCELLED} AND recorded_at >= {_moment("since")} AND recorded_at < {_moment("quarter")}
                GROUP BY tool_name, type, caller
                UNION ALL
                {_quarters("tool_error_types_15m", "''", also)}
                UNION ALL
                {_quarters("tool_caller_errors_15m", "error_class", also)}"""
        sql = f"""SELECT tool_name, type, caller, sum(n) AS total, argMaxMerge(said) AS example, min(first_seen) AS first,
            max(last_seen) AS last FROM ({sources}) GROUP BY tool_name, type, caller ORDER BY total DESC, type, caller"""
        return [
            {
                "tool_name": row["tool_name"], "error_type": row["type"], "caller_error": row["caller"] or None,
                "count": row["total"], "example": row["example"],
                "first_seen": row["first"], "last_seen": row["last"],
            }
            for row in await self._db.rows(sql, where.parameters | times)
        ]  # fmt: skip

    async def templates(
        self, tool_name: str | None = None, limit: int = 20, since: datetime | None = None
    ) -> list[dict[str, Any]]:
        """Errors grouped by type and message, with ids and numbers taken out; the ``limit`` most frequent of each tool.

        Each has ``tool_name``, ``error_type``, ``template``, ``example`` (the newest), ``count``, ``first_seen``,
        ``last_seen``.
        """
        where = Conditions(self._tenant).equal("tool_name", tool_name).recorded(since, None).that(NOT_CANCELLED)
        columns = f"tool_name, {_TYPE} AS type, {template('error_message')} AS template, {_TALLY}"
        rest = "GROUP BY tool_name, type, template ORDER BY n DESC, last_seen DESC LIMIT {limit:UInt32} BY tool_name"
        rows = await self._db.rows(
            select(columns, "tool_errors", where, rest), where.parameters | {"limit": checked_limit(limit)}
        )
        return [_error_group(row) | {"template": row["template"]} for row in rows]


def _quarters(table: str, caller: str, also: str) -> str:
    return f"""SELECT tool_name, error_type AS type, {caller} AS caller, sum(errors) AS n, min(first_at) AS first_seen,
        max(last_at) AS last_seen, argMaxMergeState({table}.example) AS said
        FROM {table} {also} period >= {_moment("quarter")} GROUP BY tool_name, type, caller"""


def _moment(name: str) -> str:
    return f"fromUnixTimestamp64Micro({{{name}:Int64}}, 'UTC')"


def _error_group(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool_name": row["tool_name"],
        "error_type": row["type"],
        "count": row["n"],
        "example": row["example"],
        "first_seen": row["first_seen"],
        "last_seen": row["last_seen"],
    }
