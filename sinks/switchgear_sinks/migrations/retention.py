"""Retention: how long rows are kept, by tenant. It is applied at every start of a sink.

``CREATE TABLE IF NOT EXISTS`` never changes the TTL of a table that exists, so the tables are compared with the rules and altered.
Rows are kept from their *arrival* (``kafka_timestamp``). Otherwise ClickHouse would drop old calls while they are loaded.

Each row is stamped with its days when it is inserted. A changed rule holds for new rows; :func:`restamp` applies it to stored ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.migrations.files import Layout, MigrationError
from switchgear_sinks.store import Connection, Store

log = structlog.get_logger()

RAW: Final = "tool_metrics"
COPIES: Final = ("tool_errors", "tool_slow_calls")
"""Tables that views fill with rows of the raw table, including their days."""
RULES: Final = "retention_rules"
ROLLUP_DAYS: Final = 400
"""Rollups are small and name no user: a year and a month of history."""
MAX_DAYS: Final = 3650
MAX_TENANTS: Final = 10_000
"""Rules are written into the table's definition, which can hold thousands of them but not a million."""
_COLUMN: Final = "retention_days"
_ROW_TTL: Final = f"toDateTime(kafka_timestamp) + toIntervalDay({_COLUMN})"
_ROLLUP_TTL: Final = f"arrived_at + toIntervalDay({ROLLUP_DAYS})"
_TTLS: Final = {
    RAW: _ROW_TTL,
    **dict.fromkeys(COPIES, _ROW_TTL),
    "tool_counts_1m": _ROLLUP_TTL,
    "tool_latency_15m": _ROLLUP_TTL,
    "tool_error_types_15m": _ROLLUP_TTL,
    "tool_caller_errors_15m": _ROLLUP_TTL,
    "circuit_transitions": f"toDateTime(kafka_timestamp) + toIntervalDay({ROLLUP_DAYS})",
}
_WRITE_RULE: Final = f"""
INSERT INTO {RULES} (tenant, is_default, days) SELECT {{tenant:String}}, {{is_default:Bool}}, {{days:UInt16}}
"""


class RetentionError(SwitchgearError):
    """A rule is refused because its days or its tenant are out of range."""


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The rules in force.

    Args:
        default: Days for tenants without a rule.
        tenants: Days by tenant.
        from_command: The default was set by a command, not by the setting.
    """

    default: int
    tenants: Mapping[str, int] = field(default_factory=dict)
    from_command: bool = False

    @property
    def expression(self) -> str:
        """SQL that computes a row's days from its ``tenant``, in the form in which ClickHouse writes it back."""
        if not self.tenants:
            return str(self.default)
        names = ", ".join(literal(tenant) for tenant in sorted(self.tenants))
        days = ", ".join(str(self.tenants[tenant]) for tenant in sorted(self.tenants))
        return f"transform(toString(tenant), [{names}], [{days}], {self.default})"

    def days(self, tenant: str) -> int:
        """Return the days of new rows of ``tenant``."""
        return self.tenants.get(tenant, self.default)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values: ``default_days``, ``default_from``, ``tenants``."""
        origin = "retention set" if self.from_command else "the setting retention_days"
        return {"default_days": self.default, "default_from": origin, "tenants": dict(self.tenants)}


async def read_rules(connection: Connection, default: int) -> RetentionRules:
    """Return the rules in force. ``default`` is the setting ``retention_days``, used if no command set another."""
    exists = await connection.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {name:String}", {"name": RULES}
    )
    if exists.result_rows[0][0] == 0:
        return RetentionRules(default)
    rows = await connection.query(
        f"SELECT is_default, tenant, argMax(days, set_at) AS latest FROM {RULES} "  # noqa: S608 - a constant
        "GROUP BY is_default, tenant HAVING latest > 0 ORDER BY tenant"
    )
    by_command = [int(days) for is_default, _, days in rows.result_rows if is_default]
    tenants = {str(tenant): int(days) for is_default, tenant, days in rows.result_rows if not is_default}
    return RetentionRules(by_command[0] if by_command else default, tenants, from_command=bool(by_command))


async def write_rule(connection: Connection, tenant: str | None, days: int | None) -> None:
    """Write a rule. :func:`apply_retention` puts it into force.

    Args:
        connection: Its tables exist.
        tenant: Whose rows; None means all tenants without a rule.
        days: How long to keep them; None removes the rule.

    Raises:
        RetentionError: ``days`` or ``tenant`` is out of range, or too many tenants have a rule.
    """
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise RetentionError(f"The retention must be from 1 to {MAX_DAYS} days, got {days}.")
    if tenant is not None and len(tenant) > MAX_NAME_LENGTH:
        raise RetentionError(f"A tenant has at most {MAX_NAME_LENGTH} characters, got {len(tenant)}.")
    if tenant is not None and days is not None:
        others = (await read_rules(connection, 1)).tenants.keys() - {tenant}
        if len(others) >= MAX_TENANTS:
            raise RetentionError(f"No more than {MAX_TENANTS:,} tenants can have a retention of their own.")
    await connection.command(_WRITE_RULE, {"tenant": tenant or "", "is_default": tenant is None, "days": days or 0})


async def plan_retention(connection: Connection, layout: Layout) -> list[str]:
    """Return the statements that put the rules into force; an empty list if they are in force.

    Raises:
        MigrationError: The raw table is missing.
    """
    stamped = await connection.query(
        "SELECT default_expression FROM system.columns "
        "WHERE database = currentDatabase() AND table = {table:String} AND name = {column:String}",
        {"table": RAW, "column": _COLUMN},
    )
    if not stamped.result_rows:
        raise MigrationError(
            f"The table {RAW} is missing although the ledger has its migration.",
            hint="Put it back from a backup, or drop the database for a fresh start.",
        )
    rules = await read_rules(connection, layout.retention_days)
    statements = []
    if not _same(stamped.result_rows[0][0], rules):
        statements.append(
            f"ALTER TABLE {RAW} {layout.on_cluster} MODIFY COLUMN {_COLUMN} UInt16 MATERIALIZED {rules.expression}"
        )
    tables = await connection.query(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND name IN {names:Array(String)}",
        {"names": list(_TTLS)},
    )
    existing: dict[str, str] = {name: query for name, query in tables.result_rows}  # noqa: C416 - rows are sequences
    return statements + [
        f"ALTER TABLE {table} {layout.on_cluster} MODIFY TTL {ttl}"
        for table, ttl in _TTLS.items()
        if table in existing and f"TTL {ttl}" not in existing[table]
    ]


async def apply_retention(connection: Connection, layout: Layout) -> list[str]:
    """Run the statements of :func:`plan_retention` and return them. Stored rows keep the days they were stamped with.

    Raises:
        MigrationError: The raw table is missing.
    """
    statements = await plan_retention(connection, layout)
    for statement in statements:
        await connection.command(statement)
        log.info("retention applied", statement=statement)
    return statements


async def change_retention(
    store: Store, layout: Layout, tenant: str | None, days: int | None, *, new_rows_only: bool = False, wait: bool
) -> RetentionRules:
    """Write a rule, put it into force, and return the rules in force.

    Args:
        store: Its tables exist.
        layout: One node or a cluster, and the default days.
        tenant: Whose rows; None means all tenants without a rule.
        days: How long to keep them; None removes the rule.
        new_rows_only: Leave stored rows as they are.
        wait: Return only when stored rows have been changed too.

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
    """Apply the rules in force to stored rows, and drop those whose days are over.

    ClickHouse does this in the background, as two mutations of one small column per table, and continues after a
    restart. With ``wait``, return when they are done.
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


def literal(text: str) -> str:
    """Return ``text`` as a string literal of ClickHouse's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _same(expression: str, rules: RetentionRules) -> bool:
    return expression == rules.expression or (not rules.tenants and _number(expression) == rules.default)


def _number(expression: str) -> int:
    """Return the number in ``30`` as ClickHouse writes it back: bare, or in a cast."""
    digits = "".join(letter if letter.isdigit() else " " for letter in expression.partition(",")[0]).split()
    return int(digits[0]) if digits else -1
