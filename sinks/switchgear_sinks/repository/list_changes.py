"""How often the lists of tools that models see changed. Each change makes a model's provider read, and bill, the whole prompt again."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from switchgear_sinks.repository.queries import Conditions, microseconds, select
from switchgear_sinks.store import Database

MOST: Final = 100
"""Services to list, those with the most changes first."""
MOST_OF_AN_EVENT: Final = 1_000_000
"""Changes that one event says. Anybody may write there."""


class ListChangesRepository:
    """Reads what calls say in their ``metadata``.

    Args:
        db: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a Store, with the database selected.
        tenant: Only this tenant's calls. None means all.
    """

    def __init__(self, db: Any, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._tenant = tenant

    async def by_service(self, since: datetime, until: datetime) -> list[dict[str, Any]]:
        """Return the services with changes in a period: ``service``, ``tenant``, ``processes`` and ``changes``, the most changes first."""
        where = (
            Conditions(self._tenant)
            .that("recorded_at >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')")
            .that("recorded_at <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')")
            .that("JSONHas(metadata, 'tool_list_changes')")
        )
        columns = f"""service, tenant, uniqExact(emitter_id) AS processes,
            sum(least(JSONExtractUInt(metadata, 'tool_list_changes'), {MOST_OF_AN_EVENT})) AS changes"""
        rest = f"GROUP BY service, tenant ORDER BY changes DESC, service LIMIT {MOST}"
        given = where.parameters | {"since": microseconds(since), "until": microseconds(until)}
        return await self._db.rows(select(columns, "tool_metrics", where, rest), given)
