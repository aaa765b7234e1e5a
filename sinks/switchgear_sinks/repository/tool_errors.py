"""ToolErrorsRepository: what fails, how often, since when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from switchgear_sinks.repository.database import Database
from switchgear_sinks.repository.queries import Conditions, checked_limit, select, template

_TYPE: Final = (
    "multiIf(error_type != '', error_type, status = 'timeout', 'timeout', error_class != '', error_class, 'unknown')"
)


_TALLY: Final = """count() AS n, argMax(error_message, recorded_at) AS example,
    min(recorded_at) AS first_seen, max(recorded_at) AS last_seen"""


class ToolErrorsRepository:
    """Reads of ``tool_errors``: errors and timeouts, grouped.

    Args:
        db: A clickhouse-connect client (sync or async, HTTP or chDB) or a Store, with the store's database selected.
        tenant: Only this tenant's rows; None: everybody's.
    """

    def __init__(self, db: Any, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._tenant = tenant

    async def count(self, tool_name: str, since: datetime) -> int:
        """Errors and timeouts of a tool since then."""
        where = Conditions(self._tenant).equal("tool_name", tool_name).recorded(since, None)
        return int((await self._db.rows(select("count() AS n", "tool_errors", where), where.parameters))[0]["n"])

    async def types(self, tool_name: str | None = None, since: datetime | None = None) -> list[dict[str, Any]]:
        """Errors by tool and type, most frequent first.

        Each has ``tool_name``, ``error_type``, ``count``, ``example`` (the newest message), ``first_seen``, ``last_seen``.
        An error that names no type goes by its status or class, e.g. ``timeout``.
        """
        where = Conditions(self._tenant).equal("tool_name", tool_name).recorded(since, None)
        sql = select(
            f"tool_name, {_TYPE} AS type, {_TALLY}",
            "tool_errors",
            where,
            "GROUP BY tool_name, type ORDER BY n DESC, type",
        )
        return [_error_group(row) for row in await self._db.rows(sql, where.parameters)]

    async def templates(
        self, tool_name: str | None = None, limit: int = 20, since: datetime | None = None
    ) -> list[dict[str, Any]]:
        """Errors grouped by type and message, with ids and numbers taken out; the ``limit`` most frequent of each tool.

        Each has ``tool_name``, ``error_type``, ``template``, ``example`` (the newest), ``count``, ``first_seen``,
        ``last_seen``.
        """
        where = Conditions(self._tenant).equal("tool_name", tool_name).recorded(since, None)
        columns = f"tool_name, {_TYPE} AS type, {template('error_message')} AS template, {_TALLY}"
        rest = "GROUP BY tool_name, type, template ORDER BY n DESC, last_seen DESC LIMIT {limit:UInt32} BY tool_name"
        rows = await self._db.rows(
            select(columns, "tool_errors", where, rest), where.parameters | {"limit": checked_limit(limit)}
        )
        return [_error_group(row) | {"template": row["template"]} for row in rows]


def _error_group(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool_name": row["tool_name"],
        "error_type": row["type"],
        "count": row["n"],
        "example": row["example"],
        "first_seen": row["first_seen"],
        "last_seen": row["last_seen"],
    }
