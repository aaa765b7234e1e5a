"""Read the stored errors: which, how often, and since when."""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
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
    window_end,
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
    """Reads ``tool_errors``: errors and timeouts, in groups. Cancelled calls are left out, and errors that are dated later than now.

    Args:
        db: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a Store, with the database selected.
        tenant: Only this tenant's rows. None means all rows.
    """

    def __init__(self, db: Any, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._tenant = tenant

    async def count(self, tool_name: str, since: datetime, classes: Collection[ErrorClass] | None = None) -> int:
        """Return the number of errors and timeouts of a tool since a time.

        Args:
            tool_name: The tool.
            since: Start, included.
            classes: Only errors of these classes. As in the breaker, a timeout without a class has the class ``timeout``, and
                an error without one the class ``unknown``. None means all.
        """
        where = self._recorded(tool_name, since)
        if classes is None:
            where.that(NOT_CANCELLED)
        else:
            where.that(f"{_CLASS} IN {{classes:Array(String)}}", classes=sorted(classes))
        return int((await self._db.rows(select("count() AS n", "tool_errors", where), where.parameters))[0]["n"])

    async def types(self, tool_name: str | None = None, since: datetime | None = None) -> list[dict[str, Any]]:
        """Return errors by tool and type, most frequent first.

        With ``since``, they come from the counts per quarter of an hour, and from the errors themselves in the first quarter.
        The numbers are the same, but errors that were removed from ``tool_errors`` still count. The last quarter counts as a whole.

        Returns:
            ``tool_name``, ``error_type`` (the status or class, such as ``timeout``, of an error without a type),
            ``caller_error`` (the class of a caller error; None for errors of the tool), ``count``, ``example`` (the newest
            message), ``first_seen``, ``last_seen``.
        """
        where = Conditions(self._tenant).equal("tool_name", tool_name)
        also = f"{where} AND" if str(where) else "WHERE"
        times = {"until": microseconds(window_end(datetime.now(UTC)))}
        raw = f"""SELECT tool_name, {_TYPE} AS type, {_CALLER} AS caller, count() AS n, min(recorded_at) AS first_seen,
            max(recorded_at) AS last_seen, argMaxState(error_message, recorded_at) AS said FROM tool_errors
            {also} {NOT_CANCELLED} AND recorded_at <= {_moment("until")}"""
        if since is None:
            sources = f"{raw} GROUP BY tool_name, type, caller"
        else:
            times |= {"since": microseconds(since), "quarter": -(-microseconds(since) // _QUARTER_US) * _QUARTER_US}
            sources = f"""{raw} AND recorded_at >= {_moment("since")} AND recorded_at < {_moment("quarter")}
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
        """Return errors by type and message without ids and numbers: the ``limit`` most frequent of each tool.

        Returns:
            ``tool_name``, ``error_type``, ``template``, ``example`` (the newest), ``count``, ``first_seen``, ``last_seen``.
        """
        where = self._recorded(tool_name, since).that(NOT_CANCELLED)
        columns = f"tool_name, {_TYPE} AS type, {template('error_message')} AS template, {_TALLY}"
        rest = "GROUP BY tool_name, type, template ORDER BY n DESC, last_seen DESC LIMIT {limit:UInt32} BY tool_name"
        rows = await self._db.rows(
            select(columns, "tool_errors", where, rest), where.parameters | {"limit": checked_limit(limit)}
        )
        return [_error_group(row) | {"template": row["template"]} for row in rows]

    def _recorded(self, tool_name: str | None, since: datetime | None) -> Conditions:
        return Conditions(self._tenant).equal("tool_name", tool_name).recorded(since, window_end(datetime.now(UTC)))


def _quarters(table: str, caller: str, also: str) -> str:
    return f"""SELECT tool_name, error_type AS type, {caller} AS caller, sum(errors) AS n, min(first_at) AS first_seen,
        max(last_at) AS last_seen, argMaxMergeState({table}.example) AS said
        FROM {table} {also} period >= {_moment("quarter")} AND period <= {_moment("until")} GROUP BY tool_name, type, caller"""


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
