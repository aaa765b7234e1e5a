"""CircuitsRepository: the circuits as the sink has landed them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from switchgear_sinks.repository.database import Database
from switchgear_sinks.repository.queries import Conditions, microseconds, select

RECORD: Final = (
    "circuit_id",
    "tool_name",
    "scope",
    "state",
    "previous_state",
    "version",
    "generation",
    "cause",
    "changed_at",
    "open_until",
    "attempt",
    "leases",
    "counts",
    "last_error",
    "mode",
    "fallback",
)
"""The fields of a Circuit record, as columns."""
REFUSING: Final = ("open", "forced_open")
_DOCUMENTS: Final = ("cause", "leases", "counts", "fallback")
_OPENED: Final = f"state IN {REFUSING} AND previous_state NOT IN {REFUSING}"
_CLOSED: Final = "state = 'closed' AND previous_state NOT IN ('', 'closed')"


class CircuitsRepository:
    """Reads of ``circuit_transitions``. A circuit's state is its record with the highest version.

    Args:
        db: A clickhouse-connect client (sync or async, HTTP or chDB) or a Store, with the store's database selected.
    """

    def __init__(self, db: Any) -> None:
        self._db = db if isinstance(db, Database) else Database(db)

    async def current(self, since: datetime, tool_name: str | None = None) -> list[dict[str, Any]]:
        """Every circuit as it is, those that refuse calls first.

        Args:
            since: Opens are counted from then, as ``opens``.
            tool_name: Only this tool's circuits.

        Returns:
            The fields of a Circuit, and ``opens``, ``last_opened_at``, ``last_closed_at`` (None: not in the records kept).
        """
        where = Conditions(None).equal("tool_name", tool_name)
        parameters = where.parameters | {"since_us": microseconds(since)}
        # in a tuple, because argMax passes over nulls: a closed circuit would keep the open_until it once had
        latest = ", ".join(f"argMax(tuple({column}), version).1 AS latest_{column}" for column in RECORD[1:])
        columns = f"""circuit_id, {latest},
            uniqExactIf(version, {_OPENED} AND changed_at >= fromUnixTimestamp64Micro({{since_us:Int64}}, 'UTC')) AS opens,
            maxIf(changed_at, {_OPENED}) AS opened, countIf({_OPENED}) AS times_opened,
            maxIf(changed_at, {_CLOSED}) AS closed, countIf({_CLOSED}) AS times_closed"""
        rest = "GROUP BY circuit_id ORDER BY latest_state NOT IN ('open', 'forced_open'), latest_changed_at DESC, circuit_id"
        rows = await self._db.rows(select(columns, "circuit_transitions", where, rest), parameters)
        return [
            _record({"circuit_id": row["circuit_id"]} | {name: row[f"latest_{name}"] for name in RECORD[1:]})
            | {
                "opens": row["opens"],
                "last_opened_at": row["opened"] if row["times_opened"] else None,
                "last_closed_at": row["closed"] if row["times_closed"] else None,
            }
            for row in rows
        ]

    async def history(self, circuit_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Records of a circuit, or of all of them, newest first; a version that was published twice is one."""
        where = Conditions(None).equal("circuit_id", circuit_id)
        rest = "ORDER BY changed_at DESC, circuit_id, version DESC LIMIT 1 BY circuit_id, version LIMIT {limit:UInt32}"
        rows = await self._db.rows(
            select(RECORD, "circuit_transitions", where, rest), where.parameters | {"limit": limit}
        )
        return [_record(row) for row in rows]


def _record(row: dict[str, Any]) -> dict[str, Any]:
    record = dict(row)
    for name in _DOCUMENTS:
        record[name] = json.loads(record[name]) if record[name] else None
    record["previous_state"] = record["previous_state"] or None
    record["last_error"] = record["last_error"] or None
    record["leases"] = record["leases"] or []
    record["fallback"] = record["fallback"] or []
    record["counts"] = record["counts"] or {}
    return record
