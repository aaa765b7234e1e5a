"""Read the circuits that the sink has stored."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, Final

from switchgear_schemas.enums import BROKEN, REFUSING
from switchgear_sinks.repository.local_circuits import local_circuits
from switchgear_sinks.repository.queries import Conditions, microseconds, select, window_end
from switchgear_sinks.store import Database

RECORD: Final = (
    "circuit_id",
    "tool_name",
    "family",
    "scope",
    "target",
    "state",
    "previous_state",
    "version",
    "generation",
    "cause",
    "changed_at",
    "open_until",
    "attempt",
    "admitted_share",
    "leases",
    "counts",
    "last_error",
    "mode",
    "fallback",
)
"""The fields of a circuit record, as columns."""
_DOCUMENTS: Final = ("cause", "leases", "counts", "fallback")
_OPENED: Final = f"state IN {REFUSING} AND previous_state NOT IN {REFUSING}"
_CLOSED: Final = "state = 'closed' AND previous_state NOT IN ('', 'closed')"


class CircuitsRepository:
    """Reads ``circuit_transitions``, and the refusals in ``tool_metrics``. A circuit's record with the highest version is its state.

    Args:
        db: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a Store, with the database selected.
    """

    def __init__(self, db: Any) -> None:
        self._db = db if isinstance(db, Database) else Database(db)

    async def current(
        self, since: datetime, tool_name: str | None = None, *, refusing: bool = False
    ) -> list[dict[str, Any]]:
        """Return the state of every circuit, those that refuse calls first.

        Args:
            since: Opens from this time on are counted as ``opens``.
            tool_name: Only this tool's circuits.
            refusing: Only those that refuse calls, some or all of them.

        Returns:
            The fields of a Circuit, and ``opens``, ``last_opened_at``, ``last_closed_at`` (None if no stored record has it).
        """
        where = Conditions(None).equal("tool_name", tool_name)
        # Select the newest record by its key. argMax of each column would read every document of the whole history.
        newest = select("circuit_id, max(version)", "circuit_transitions", where, "GROUP BY circuit_id")
        latest = Conditions(None).equal("tool_name", tool_name).that(f"(circuit_id, version) IN ({newest})")
        if refusing:
            latest.that(f"state IN {BROKEN}")
        order = f"ORDER BY state NOT IN {REFUSING}, changed_at DESC, circuit_id LIMIT 1 BY circuit_id"
        tallies = f"""circuit_id,
            uniqExactIf(version, {_OPENED} AND changed_at >= fromUnixTimestamp64Micro({{since_us:Int64}}, 'UTC')) AS opens,
            maxIf(changed_at, {_OPENED}) AS opened, countIf({_OPENED}) AS times_opened,
            maxIf(changed_at, {_CLOSED}) AS closed, countIf({_CLOSED}) AS times_closed"""
        records, counted = await asyncio.gather(
            self._db.rows(select(RECORD, "circuit_transitions", latest, order), where.parameters),
            self._db.rows(
                select(tallies, "circuit_transitions", where, "GROUP BY circuit_id"),
                where.parameters | {"since_us": microseconds(since)},
            ),
        )
        known = {row["circuit_id"]: row for row in counted}
        return [_record(row) | _tally(known.get(row["circuit_id"])) for row in records]

    async def local(self, since: datetime, tool_name: str | None = None) -> list[dict[str, Any]]:
        """Return the circuits that processes opened on their own evidence, by tool, service and scope; the newest refusal first.

        The fleet's circuit of the same tool may be closed. A process is left out once the tool has answered a later call of it.
        The circuits of users, of sessions, or of targets, are one entry per service.

        Args:
            since: Look for refusals from this time on, by the callers' clocks.
            tool_name: Only this tool's circuits.

        Returns:
            At most 1,000 entries: ``tool_name``, ``service``, ``scope``, ``state``, ``processes`` (how many refuse), ``since`` and
            ``last_refusal_at`` (the first and last refusal without an answered call between), ``refusals`` (calls refused),
            ``open_until`` (when the last process may try a call; None if unknown), ``cause`` and ``last_error`` (of the newest
            refusal).
        """
        return await local_circuits(self._db, since, window_end(datetime.now(UTC)), tool_name)

    async def history(self, circuit_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Return the records of a circuit, or of all circuits, newest first. A version that was published twice is one record."""
        where = Conditions(None).equal("circuit_id", circuit_id)
        rest = "ORDER BY changed_at DESC, circuit_id, version DESC LIMIT 1 BY circuit_id, version LIMIT {limit:UInt32}"
        rows = await self._db.rows(
            select(RECORD, "circuit_transitions", where, rest), where.parameters | {"limit": limit}
        )
        return [_record(row) for row in rows]


def _tally(row: dict[str, Any] | None) -> dict[str, Any]:
    """Return the counts of a circuit. One that was stored between the two queries has none yet."""
    return {
        "opens": row["opens"] if row else 0,
        "last_opened_at": row["opened"] if row and row["times_opened"] else None,
        "last_closed_at": row["closed"] if row and row["times_closed"] else None,
    }


def _record(row: dict[str, Any]) -> dict[str, Any]:
    record = dict(row)
    for name in _DOCUMENTS:
        record[name] = json.loads(record[name]) if record[name] else None
    record["previous_state"] = record["previous_state"] or None
    record["last_error"] = record["last_error"] or None
    record["family"] = record["family"] or None
    record["target"] = record["target"] or None
    record["leases"] = record["leases"] or []
    record["fallback"] = record["fallback"] or []
    record["counts"] = record["counts"] or {}
    return record
