"""Find the processes whose clock is wrong, from the counts per hour of events that were more than a minute off."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from switchgear_schemas.emitter_clocks import clock_of_emitter
from switchgear_sinks.repository.queries import Conditions, select
from switchgear_sinks.store import Database

MOST: Final = 200
"""Emitters that are looked at, those with the newest events first."""


class EmittersRepository:
    """Reads ``emitter_clocks``.

    Args:
        db: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a Store, with the database selected.
        late_after_s: As in the settings: how late an event may come to be counted.
        tenant: Only this tenant's emitters. None means all.
    """

    def __init__(self, db: Any, late_after_s: float, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._late_after_s = late_after_s
        self._tenant = tenant

    async def wrong_clocks(self, since: datetime) -> list[dict[str, Any]]:
        """Return the emitters whose clock is wrong: those whose calls no circuit counts first, then the newest.

        Args:
            since: The start of the period, by the broker's clock. Its hour counts whole.

        Returns:
            ``emitter_id``, ``service``, ``tenant``, ``events`` (that were more than a minute off), ``without_zone`` (how many of them had
            no time zone), ``offset_s`` (the least and the greatest difference to the broker's clock, in seconds), ``last_at``,
            ``counted`` (whether circuits count its calls), ``text`` (what is wrong) and ``todo``.
        """
        where = Conditions(self._tenant).that("hour >= toStartOfHour(toDateTime({since:UInt32}, 'UTC'))")
        columns = """tenant, service, emitter_id, sum(events) AS n, sum(without_zone) AS naive, min(least_s) AS least,
            max(most_s) AS most, uniqExact(hour) AS hours, max(last_at) AS last"""
        rest = f"GROUP BY tenant, service, emitter_id ORDER BY last DESC, n DESC, emitter_id LIMIT {MOST}"
        given = where.parameters | {"since": int(since.timestamp())}
        rows = await self._db.rows(select(columns, "emitter_clocks", where, rest), given)
        found = [each for each in map(self._emitter, rows) if each is not None]
        return sorted(found, key=lambda each: bool(each["counted"]))

    def _emitter(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        wrong = clock_of_emitter(
            events=row["n"],
            hours=row["hours"],
            without_zone=row["naive"],
            least_s=row["least"],
            most_s=row["most"],
            late_after_s=self._late_after_s,
        )
        if wrong is None:
            return None
        return {
            "emitter_id": row["emitter_id"],
            "service": row["service"],
            "tenant": row["tenant"],
            "events": row["n"],
            "without_zone": row["naive"],
            "offset_s": [row["least"], row["most"]],
            "last_at": row["last"],
            **wrong._asdict(),
        }
