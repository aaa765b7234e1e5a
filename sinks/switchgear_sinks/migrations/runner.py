"""Apply the migrations, and keep the ledger of those that were applied."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, NamedTuple

import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.clickhouse_errors import TABLE_ALREADY_EXISTS, clickhouse_code
from switchgear_sinks.migrations.files import Layout, Migration, MigrationError, explained, load_migrations
from switchgear_sinks.migrations.retention import apply_retention, plan_retention
from switchgear_sinks.store import Connection, Store

log = structlog.get_logger()

LEDGER: Final = "schema_migrations"
LOCK: Final = "schema_migrations_lock"
STALE_S: Final = 60.0
"""A lock of this age belongs to a process that died. Migrations take a few seconds."""
_LIMIT_S: Final = 180.0
_POLL_S: Final = 0.2
_NOTHING_LOST: Final = "Every statement can be repeated: correct the cause and start again."
_CHANGED_VIEW: Final = re.compile(r"ALTER TABLE (\w+) .*\bMODIFY QUERY\b")

_CREATE_LEDGER: Final = f"""
CREATE TABLE IF NOT EXISTS {LEDGER} {{on_cluster}}
(
    version UInt32 COMMENT 'Number of the file',
    name String COMMENT 'Name of the file',
    checksum String COMMENT 'SHA-256 of its text',
    applied_at DateTime('UTC') DEFAULT now() COMMENT 'When it was applied here'
)
ENGINE = {{merge_tree}} ORDER BY version
COMMENT 'Migrations that this database has'
"""
_ENTER: Final = f"""
INSERT INTO {LEDGER} (version, name, checksum) SELECT {{version:UInt32}}, {{name:String}}, {{checksum:String}}
"""
_CREATE_LOCK: Final = f"""
CREATE TABLE {LOCK} {{on_cluster}} (nothing UInt8) ENGINE = Memory
COMMENT 'Held by the process that applies migrations now. Drop it if none runs.'
"""
_DROP_LOCK: Final = f"DROP TABLE IF EXISTS {LOCK} {{on_cluster}} SYNC"
_LOCK_AGE: Final = f"""
SELECT toFloat64(now()) - toFloat64(metadata_modification_time) FROM system.tables
WHERE database = currentDatabase() AND name = '{LOCK}'
"""  # noqa: S608 - a constant


class Applied(NamedTuple):
    """One line of the ledger."""

    version: int
    name: str
    checksum: str
    applied_at: datetime


async def migrate(
    connection: Connection, layout: Layout | None = None, migrations: list[Migration] | None = None
) -> list[Migration]:
    """Bring the database to this version, apply the retention, and return the migrations that were applied.

    After a crash in the middle, run it again: every statement can be repeated, and a file enters the ledger after its
    last statement. If several processes start at once, one applies the migrations and the others wait for it.

    Args:
        connection: A :class:`Store`, or a :class:`~switchgear_sinks.store.Database` over any client.
        layout: One node or a cluster, and the default retention.
        migrations: Apply these instead of the package's own, without the retention.

    Raises:
        MigrationError: An applied file was changed, the database is from before 0.1.0, or ClickHouse refused a statement.
    """
    layout = Layout() if layout is None else layout
    known = load_migrations() if migrations is None else migrations
    with explained("The migrations", _NOTHING_LOST):
        missing = await _missing(connection, known)
        if missing:
            async with one_at_a_time(connection, layout):
                missing = await _missing(connection, known)  # another process may have applied some meanwhile
                await connection.command(layout.fill(_CREATE_LEDGER))
                for migration in missing:
                    await _apply(connection, layout, migration)
    if migrations is None:
        with explained("The retention", _NOTHING_LOST):
            await apply_retention(connection, layout)
    return missing


async def pending(connection: Connection, migrations: list[Migration] | None = None) -> list[Migration]:
    """Return what :func:`migrate` would apply, and change nothing.

    Raises:
        MigrationError: An applied file was changed.
    """
    return await _missing(connection, load_migrations() if migrations is None else migrations)


async def planned(store: Store, layout: Layout) -> list[str]:
    """Return the statements that :func:`migrate` would run, in order, with those of the retention.

    Raises:
        MigrationError: An applied file was changed.
    """
    missing = await pending(store)
    statements = [statement for migration in missing for statement in migration.statements(layout)]
    if missing:
        statements.insert(0, layout.fill(_CREATE_LEDGER).strip())
    if not store.database_exists:
        statements.insert(0, store.creation)
    fresh = any(migration.version == 1 for migration in missing)
    return statements if fresh else statements + await plan_retention(store, layout)


async def _missing(connection: Connection, known: list[Migration]) -> list[Migration]:
    """Return the migrations that are not in the ledger. Lines of a newer version are allowed: it only adds."""
    applied = {line.version: line for line in await _read_ledger(connection)}
    for migration in known:
        line = applied.get(migration.version)
        if line is not None and line.name != migration.name:
            raise MigrationError(
                f"This database is from before version 0.1.0: its migration {line.version:04} is {line.name}, not {migration.name}.",
                hint="Give the sink an empty folder or database (clickhouse_url, or --data-dir of `switchgear up`), and start "
                "it once with --rewind: it stores what Kafka still has.",
            )
        if line is not None and line.checksum != migration.checksum:
            raise MigrationError(
                f"Migration {migration.version:04}_{migration.name} was applied on {line.applied_at:%Y-%m-%d} "
                f"with other contents.",
                hint="Restore the file as it was and put the change into a new one with the next number.",
            )
    return [migration for migration in known if migration.version not in applied]


async def _read_ledger(connection: Connection) -> list[Applied]:
    exists = await connection.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {name:String}",
        {"name": LEDGER},
    )
    if exists.result_rows[0][0] == 0:
        return []
    rows = await connection.query(
        f"SELECT version, argMin(name, applied_at), argMin(checksum, applied_at), min(applied_at) "  # noqa: S608 - a constant
        f"FROM {LEDGER} GROUP BY version ORDER BY version"
    )
    return [Applied(*row) for row in rows.result_rows]


async def _apply(connection: Connection, layout: Layout, migration: Migration) -> None:
    with explained(f"Migration {migration.version:04}_{migration.name}", _NOTHING_LOST):
        await _run_statements(connection, layout, migration.statements(layout))
        await connection.command(
            _ENTER, {"version": migration.version, "name": migration.name, "checksum": migration.checksum}
        )
    log.info("migration applied", version=migration.version, migration=migration.name)


async def _run_statements(connection: Connection, layout: Layout, statements: list[str]) -> None:
    """Run the statements. In a database without rows, detach and attach the views whose query they changed.

    After the next start of the server, ClickHouse takes such a view for a new one. A batch from before that start, inserted
    again, would count twice in its rollup. With rows in the database a sink may be writing.
    A row that arrives while a view is detached would be missing in the rollup, which is worse.
    """
    changed = [found[1] for each in statements if (found := _CHANGED_VIEW.match(each))]
    for view in changed:  # a process that died may have left it detached
        await connection.command(layout.fill(f"ATTACH TABLE IF NOT EXISTS {view} {{on_cluster}}"))
    for statement in statements:
        await connection.command(statement)
    if changed and not (await connection.query("SELECT count() FROM tool_metrics")).result_rows[0][0]:
        for view in changed:
            await connection.command(layout.fill(f"DETACH TABLE {view} {{on_cluster}} SYNC"))
            await connection.command(layout.fill(f"ATTACH TABLE {view} {{on_cluster}}"))


@asynccontextmanager
async def one_at_a_time(connection: Connection, layout: Layout, limit_s: float = _LIMIT_S) -> AsyncIterator[None]:
    """Hold the lock of the database. The embedded engine needs none, because only one process can open its folder.

    Raises:
        MigrationError: Another process held the lock for ``limit_s`` seconds.
    """
    if connection.embedded:
        yield
        return
    deadline = time.monotonic() + limit_s
    while not await _acquire(connection, layout):
        if time.monotonic() > deadline:
            raise MigrationError(
                f"Another process has been migrating this database for {limit_s:g} s.",
                hint=f"If none runs, drop the table {LOCK} and start again.",
            )
        await asyncio.sleep(_POLL_S)
    try:
        yield
    finally:
        await connection.command(layout.fill(_DROP_LOCK))


async def _acquire(connection: Connection, layout: Layout) -> bool:
    try:
        await connection.command(layout.fill(_CREATE_LOCK))
    except ClickHouseError as error:
        if clickhouse_code(error) != TABLE_ALREADY_EXISTS:
            raise
    else:
        return True
    ages = (await connection.query(_LOCK_AGE)).result_rows
    if ages and ages[0][0] > STALE_S:
        log.warning("the process that was migrating has ended, its lock is dropped", age_s=ages[0][0])
        await connection.command(layout.fill(_DROP_LOCK))
    return False
