"""Retention: how long rows are kept, applied at every start.

``CREATE TABLE IF NOT EXISTS`` never changes a TTL that is already there, so a changed setting would go unnoticed for
ever: the table is compared and altered instead. Rows are kept from their *arrival* (``kafka_timestamp``): a load of old
calls would otherwise vanish while it is inserted (measured: ClickHouse drops expired rows at once).

Each row is stamped with its days when it is inserted, by tenant (:mod:`~switchgear_sinks.migrations.retention_rules`).
A change is for new rows; :func:`restamp` does the stored ones too.
"""

from __future__ import annotations

from typing import Final

import structlog

from switchgear_sinks.migrations.files import MigrationError
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.migrations.retention_rules import RetentionRules, read_rules, write_rule
from switchgear_sinks.store import Store

log = structlog.get_logger()

RAW: Final = "tool_metrics"
COPIES: Final = ("tool_errors", "tool_slow_calls")
"""Tables that views fill with rows of the raw one, their days with them."""
ROLLUP_DAYS: Final = 400
"""Rollups name no user and are small: a year and a month of history."""
_COLUMN: Final = "retention_days"
_TTLS: Final = {
    RAW: "toDateTime(kafka_timestamp) + toIntervalDay(retention_days)",
    **dict.fromkeys(COPIES, "toDateTime(kafka_timestamp) + toIntervalDay(retention_days)"),
    "tool_counts_1m": f"arrived_at + toIntervalDay({ROLLUP_DAYS})",
    "tool_latency_15m": f"arrived_at + toIntervalDay({ROLLUP_DAYS})",
    "tool_error_types_15m": f"arrived_at + toIntervalDay({ROLLUP_DAYS})",
    "tool_caller_errors_15m": f"arrived_at + toIntervalDay({ROLLUP_DAYS})",
    "circuit_transitions": f"toDateTime(kafka_timestamp) + toIntervalDay({ROLLUP_DAYS})",
}


async def plan_retention(store: Store, layout: Layout) -> list[str]:
    """The statements that give new rows the days of the rules in force and every table its TTL; none where all is so.

    Raises:
        MigrationError: the raw table is not there.
    """
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
    rules = await read_rules(store, layout.retention_days)
    statements = []
    if not _same(stamped.result_rows[0][0], rules):
        statements.append(
            f"ALTER TABLE {RAW} {layout.on_cluster} MODIFY COLUMN {_COLUMN} UInt16 MATERIALIZED {rules.expression}"
        )
    tables = await store.query(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND name IN {names:Array(String)}",
        {"names": list(_TTLS)},
    )
    existing: dict[str, str] = {name: query for name, query in tables.result_rows}  # noqa: C416 - rows are sequences
    return statements + [
        f"ALTER TABLE {table} {layout.on_cluster} MODIFY TTL {ttl}"
        for table, ttl in _TTLS.items()
        if table in existing and f"TTL {ttl}" not in existing[table]
    ]


async def apply_retention(store: Store, layout: Layout) -> list[str]:
    """Run :func:`plan_retention`'s statements and return them. Rows that are stored keep the days they were stamped with.

    Raises:
        MigrationError: the raw table is not there.
    """
    statements = await plan_retention(store, layout)
    for statement in statements:
        await store.command(statement)
        log.info("retention applied", statement=statement)
    return statements


async def change_retention(
    store: Store, layout: Layout, tenant: str | None, days: int | None, *, new_rows_only: bool = False, wait: bool
) -> RetentionRules:
    """Keep rows of ``tenant`` (None: of all tenants without a rule) for ``days``, and put that into force.

    Args:
        store: Its tables exist.
        layout: One node or a cluster, and the default days.
        tenant: Whose rows.
        days: None takes the rule back.
        new_rows_only: Leave the rows that are stored as they are.
        wait: Return only when the rows that are stored have been changed, too.

    Returns:
        The rules in force now.

    Raises:
        RetentionError: The rule is out of range; nothing was changed.
        ClickHouseError: ClickHouse refused a statement. A rule that was written before it stays, and the next sink that
            starts applies it.
    """
    await write_rule(store, tenant, days)
    await apply_retention(store, layout)
    if not new_rows_only:
        await restamp(store, layout, wait=wait)
    return await read_rules(store, layout.retention_days)


async def restamp(store: Store, layout: Layout, *, wait: bool) -> None:
    """Give rows that are stored the days of the rules in force as well, and drop those whose days are over.

    Two mutations of one small column a table. ClickHouse does them in the background, and goes on with them when it
    starts again; ``wait`` returns when they are done.
    """
    rules = await read_rules(store, layout.retention_days)
    settings = {"mutations_sync": 2 if wait else 0}
    statements = [f"ALTER TABLE {RAW} {layout.on_cluster} MATERIALIZE COLUMN {_COLUMN}"]
    statements += [
        f"ALTER TABLE {table} {layout.on_cluster} UPDATE {_COLUMN} = {rules.expression} WHERE {_COLUMN} != {rules.expression}"
        for table in COPIES
    ]
    statements += [f"ALTER TABLE {table} {layout.on_cluster} MATERIALIZE TTL" for table in (RAW, *COPIES)]
    for statement in statements:
        await store.command(statement, settings=settings)
        log.info("retention applied to stored rows", statement=statement)


def _same(expression: str, rules: RetentionRules) -> bool:
    return expression == rules.expression or (not rules.tenants and _number(expression) == rules.default)


def _number(expression: str) -> int:
    """Of ``30`` as ClickHouse writes it back: bare, or in a cast."""
    digits = "".join(letter if letter.isdigit() else " " for letter in expression.partition(",")[0]).split()
    return int(digits[0]) if digits else -1
