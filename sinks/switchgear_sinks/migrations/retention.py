"""Retention: how long rows are kept, applied at every start.

``CREATE TABLE IF NOT EXISTS`` never changes a TTL that is already there, so a changed setting would go unnoticed for
ever: the table is compared and altered instead. Rows are kept from their *arrival* (``kafka_timestamp``): a load of old
calls would otherwise vanish while it is inserted (measured: ClickHouse drops expired rows at once).

Each row is stamped with its days when it is inserted, by tenant (:mod:`~switchgear_sinks.migrations.retention`).
A change is for new rows; :func:`restamp` does the stored ones too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.migrations.ledger import MigrationError
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


RULES: Final = "retention_rules"
MAX_DAYS: Final = 3650
MAX_TENANTS: Final = 10_000
"""Rules are written into the table's definition: thousands are fine, a million would not be."""


class RetentionError(SwitchgearError):
    """A rule cannot be kept: its days or its tenant are out of range."""


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """``default`` days, and others for some tenants. ``from_command`` tells whether the default was set by command."""

    default: int
    tenants: Mapping[str, int] = field(default_factory=dict)
    from_command: bool = False

    @property
    def expression(self) -> str:
        """SQL that gives a row's days from its ``tenant``, in the form in which ClickHouse writes it back."""
        if not self.tenants:
            return str(self.default)
        names = ", ".join(literal(tenant) for tenant in sorted(self.tenants))
        days = ", ".join(str(self.tenants[tenant]) for tenant in sorted(self.tenants))
        return f"transform(toString(tenant), [{names}], [{days}], {self.default})"

    def days(self, tenant: str) -> int:
        """For new rows of ``tenant``."""
        return self.tenants.get(tenant, self.default)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: ``default_days``, ``default_from``, ``tenants``."""
        origin = "retention set" if self.from_command else "the setting retention_days"
        return {"default_days": self.default, "default_from": origin, "tenants": dict(self.tenants)}


async def read_rules(store: Store, default: int) -> RetentionRules:
    """The rules in force; ``default`` (the setting ``retention_days``) where no command set another."""
    known = await store.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {name:String}", {"name": RULES}
    )
    if known.result_rows[0][0] == 0:
        return RetentionRules(default)
    rows = await store.query(
        f"SELECT is_default, tenant, argMax(days, set_at) AS latest FROM {RULES} "  # noqa: S608 - a constant
        "GROUP BY is_default, tenant HAVING latest > 0 ORDER BY tenant"
    )
    by_command = [int(days) for is_default, _, days in rows.result_rows if is_default]
    tenants = {str(tenant): int(days) for is_default, tenant, days in rows.result_rows if not is_default}
    return RetentionRules(by_command[0] if by_command else default, tenants, from_command=bool(by_command))


async def write_rule(store: Store, tenant: str | None, days: int | None) -> None:
    """Keep rows of ``tenant`` (None: of all tenants without a rule) for ``days``; None takes the rule back.

    Only the rule: :func:`apply_retention` puts it into force.

    Raises:
        RetentionError: ``days`` or ``tenant`` is out of range, or too many tenants have a rule.
    """
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise RetentionError(f"The retention must be from 1 to {MAX_DAYS} days, got {days}.")
    if tenant is not None and len(tenant) > MAX_NAME_LENGTH:
        raise RetentionError(f"A tenant has at most {MAX_NAME_LENGTH} characters, got {len(tenant)}.")
    if tenant is not None and days is not None:
        others = (await read_rules(store, 1)).tenants.keys() - {tenant}
        if len(others) >= MAX_TENANTS:
            raise RetentionError(f"No more than {MAX_TENANTS:,} tenants can have a retention of their own.")
    await store.writing.insert(RULES, [(tenant or "", tenant is None, days or 0)], ["tenant", "is_default", "days"])


def literal(text: str) -> str:
    """``text`` as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
