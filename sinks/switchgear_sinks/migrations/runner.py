"""Applying the migrations."""

from __future__ import annotations

import re
from typing import Final

import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.migrations.files import Migration, MigrationError, load_migrations
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.migrations.ledger import CREATE_LEDGER, ensure_ledger, enter, outstanding, read_ledger
from switchgear_sinks.migrations.retention import apply_retention, plan_retention
from switchgear_sinks.migrations.turns import one_at_a_time
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
