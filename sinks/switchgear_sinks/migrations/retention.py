"""Retention: how long rows are kept, applied at every start.

``CREATE TABLE IF NOT EXISTS`` never changes a TTL that is already there, so a changed setting would go unnoticed for
ever: the table is compared and altered instead. Rows are kept from their *arrival* (``kafka_timestamp``): a load of old
calls would otherwise vanish while it is inserted (measured: ClickHouse drops expired rows at once).
"""

from __future__ import annotations

from typing import Final

import structlog

from switchgear_sinks.migrations.files import MigrationError
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.store import Store

log = structlog.get_logger()

RAW: Final = "tool_metrics"
ROLLUP_DAYS: Final = 400
"""Rollups name no user and are small: a year and a month of history."""
_COLUMN: Final = "retention_days"
_TTLS: Final = {
    RAW: "toDateTime(kafka_timestamp) + toIntervalDay(retention_days)",
    "tool_errors": "toDateTime(kafka_timestamp) + toIntervalDay(retention_days)",
    "tool_counts_1m": f"arrived_at + toIntervalDay({ROLLUP_DAYS})",
    "tool_latency_15m": f"arrived_at + toIntervalDay({ROLLUP_DAYS})",
    "circuit_transitions": f"toDateTime(kafka_timestamp) + toIntervalDay({ROLLUP_DAYS})",
}


async def apply_retention(store: Store, layout: Layout) -> list[str]:
    """Give new rows ``layout.retention_days`` and every table its TTL; return the statements that were needed.

    Raises:
        MigrationError: the raw table is not there.
    """
    statements = []
    stamped = await store.query(
        "SELECT default_expression FROM system.columns "
        "WHERE database = currentDatabase() AND table = {table:String} AND name = {column:String}",
        {"table": RAW, "column": _COLUMN},
    )
    if not stamped.result_rows:
        raise MigrationError(
            f"The table {RAW} is missing although the ledger has its migration.",
            hint="Put it back from a backup, or drop the database for a fresh start.",
        )
    if _number(stamped.result_rows[0][0]) != layout.retention_days:
        statements.append(
            f"ALTER TABLE {RAW} {layout.on_cluster} MODIFY COLUMN {_COLUMN} UInt16 MATERIALIZED {layout.retention_days}"
        )
    tables = await store.query(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND name IN {names:Array(String)}",
        {"names": list(_TTLS)},
    )
    existing: dict[str, str] = {name: query for name, query in tables.result_rows}  # noqa: C416 - rows are sequences
    statements += [
        f"ALTER TABLE {table} {layout.on_cluster} MODIFY TTL {ttl}"
        for table, ttl in _TTLS.items()
        if table in existing and f"TTL {ttl}" not in existing[table]
    ]
    for statement in statements:
        await store.command(statement)
        log.info("retention applied", statement=statement)
    return statements


def _number(expression: str) -> int:
    """Of ``30`` as ClickHouse writes it back: bare, or in a cast."""
    digits = "".join(letter if letter.isdigit() else " " for letter in expression.partition(",")[0]).split()
    return int(digits[0]) if digits else -1
