"""Applying the migrations."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.migrations.ledger import (
    CREATE_LEDGER,
    Migration,
    MigrationError,
    ensure_ledger,
    enter,
    load_migrations,
    outstanding,
    read_ledger,
)
from switchgear_sinks.migrations.retention import apply_retention, plan_retention
from switchgear_sinks.store import Store

log = structlog.get_logger()

_CHANGED_VIEW: Final = re.compile(r"ALTER TABLE (\w+) .*\bMODIFY QUERY\b")


async def pending(store: Store, migrations: list[Migration] | None = None) -> list[Migration]:
    """What :func:`migrate` would apply (the dry run): nothing is changed, not even the ledger made.

    Raises:
        MigrationError: the text of an applied file has changed since.
    """
    return outstanding(load_migrations() if migrations is None else migrations, await read_ledger(store))


async def planned(store: Store, layout: Layout) -> list[str]:
    """The statements that :func:`migrate` would run with ``layout``, in order, the retention's included.

    Raises:
        MigrationError: the text of an applied file has changed since.
    """
    missing = await pending(store)
    statements = [statement for migration in missing for statement in migration.statements(layout)]
    if missing:
        statements.insert(0, layout.fill(CREATE_LEDGER).strip())
    if not store.database_exists:
        statements.insert(0, store.creation)
    fresh = any(migration.version == 1 for migration in missing)
    return statements if fresh else statements + await plan_retention(store, layout)


async def migrate(
    store: Store, layout: Layout | None = None, migrations: list[Migration] | None = None
) -> list[Migration]:
    """Bring the database to this version and apply the retention; return what was applied.

    A crash in the middle is harmless: every statement says IF NOT EXISTS, and a file enters the ledger after its last one.
    Of several processes that start at once, one does it and the others wait (see ``turns``).

    Raises:
        MigrationError: an applied file has changed, or ClickHouse refused a statement (the message has both).
    """
    plan = Layout() if layout is None else layout
    doing = "The migrations"
    try:
        missing = await pending(store, migrations)
        if missing:
            async with one_at_a_time(store, plan):
                missing = await pending(store, migrations)  # another process may have applied some meanwhile
                await ensure_ledger(store, plan)
                for migration in missing:
                    doing = f"Migration {migration.version:04}_{migration.name}"
                    await _apply(store, plan, migration)
                    await enter(store, migration)
                    log.info("migration applied", version=migration.version, migration=migration.name)
        if migrations is None:
            doing = "The retention"
            await apply_retention(store, plan)
    except ClickHouseError as error:
        reason = " ".join(str(error).split())[:400]
        raise MigrationError(
            f"{doing} failed: {reason}", hint="Nothing is half done: correct the cause and start again."
        ) from error
    return missing


async def _apply(store: Store, layout: Layout, migration: Migration) -> None:
    """Run the statements, and attach again the views whose query they changed, while the database has no rows.

    ClickHouse takes such a view for another one after the server's next start: a batch from before that is inserted again then counts
    twice in its rollup. With rows, a sink may be writing: a row that arrives while a view is detached would be missing, which is worse.
    """
    statements = migration.statements(layout)
    changed = [found[1] for each in statements if (found := _CHANGED_VIEW.match(each))]
    for view in changed:  # a process that died may have left it detached
        await store.command(layout.fill(f"ATTACH TABLE IF NOT EXISTS {view} {{on_cluster}}"))
    for statement in statements:
        await store.command(statement)
    if changed and not (await store.query("SELECT count() FROM tool_metrics")).result_rows[0][0]:
        for view in changed:
            await store.command(layout.fill(f"DETACH TABLE {view} {{on_cluster}} SYNC"))
            await store.command(layout.fill(f"ATTACH TABLE {view} {{on_cluster}}"))


LOCK: Final = "schema_migrations_lock"
STALE_S: Final = 60.0
"""A lock of this age was left behind by a process that died. The migrations take a few seconds."""
_LIMIT_S: Final = 180.0
_POLL_S: Final = 0.2
_ALREADY_EXISTS: Final = "Code: 57."
_CREATE: Final = f"""
CREATE TABLE {LOCK} {{on_cluster}} (nothing UInt8) ENGINE = Memory
COMMENT 'Held by the process that applies migrations now. Drop it if none runs.'
"""
_DROP: Final = f"DROP TABLE IF EXISTS {LOCK} {{on_cluster}} SYNC"
_AGE: Final = f"""
SELECT toFloat64(now()) - toFloat64(metadata_modification_time) FROM system.tables
WHERE database = currentDatabase() AND name = '{LOCK}'
"""  # noqa: S608 - a constant


@asynccontextmanager
async def one_at_a_time(store: Store, layout: Layout, limit_s: float = _LIMIT_S) -> AsyncIterator[None]:
    """Hold the lock of the database. The embedded engine needs none: one process has its folder open.

    Raises:
        MigrationError: another process held the lock for ``limit_s`` seconds.
    """
    if store.embedded:
        yield
        return
    deadline = time.monotonic() + limit_s
    while not await _taken(store, layout):
        if time.monotonic() > deadline:
            raise MigrationError(
                f"Another process has been migrating {store.database} for {limit_s:g} s.",
                hint=f"If none runs, drop the table {LOCK} and start again.",
            )
        await asyncio.sleep(_POLL_S)
    try:
        yield
    finally:
        await store.command(layout.fill(_DROP))


async def _taken(store: Store, layout: Layout) -> bool:
    try:
        await store.command(layout.fill(_CREATE))
    except ClickHouseError as error:
        if _ALREADY_EXISTS not in str(error):
            raise
    else:
        return True
    ages = (await store.query(_AGE)).result_rows
    if ages and ages[0][0] > STALE_S:
        log.warning("the process that was migrating is gone, its lock is dropped", age_s=ages[0][0])
        await store.command(layout.fill(_DROP))
    return False
