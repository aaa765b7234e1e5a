"""The ledger: which migrations this database has, with the checksums they had."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from switchgear_sinks.migrations.files import Migration, MigrationError
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.store import Store

LEDGER: Final = "schema_migrations"

CREATE_LEDGER: Final = f"""
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


class Applied(NamedTuple):
    """One line of the ledger."""

    version: int
    name: str
    checksum: str
    applied_at: datetime


async def ensure_ledger(store: Store, layout: Layout) -> None:
    """Create the ledger where there is none."""
    await store.command(layout.fill(CREATE_LEDGER))


async def read_ledger(store: Store) -> list[Applied]:
    """What has been applied; empty for a database without a ledger."""
    known = await store.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {name:String}",
        {"name": LEDGER},
    )
    if known.result_rows[0][0] == 0:
        return []
    rows = await store.query(
        f"SELECT version, argMin(name, applied_at), argMin(checksum, applied_at), min(applied_at) "  # noqa: S608 - a constant
        f"FROM {LEDGER} GROUP BY version ORDER BY version"
    )
    return [Applied(*row) for row in rows.result_rows]


async def enter(store: Store, migration: Migration) -> None:
    """Write one line: all statements of ``migration`` have run."""
    await store.writing.insert(
        LEDGER,
        [(migration.version, migration.name, migration.checksum)],
        ["version", "name", "checksum"],
    )


def outstanding(known: list[Migration], applied: list[Applied]) -> list[Migration]:
    """The migrations still to apply. Lines of a newer version of Switchgear are no error: it only adds.

    Raises:
        MigrationError: the text of an applied file has changed since.
    """
    checksums = {line.version: line for line in applied}
    for migration in known:
        line = checksums.get(migration.version)
        if line is not None and line.checksum != migration.checksum:
            raise MigrationError(
                f"Migration {migration.version:04}_{migration.name} was applied on {line.applied_at:%Y-%m-%d} "
                f"with other contents.",
                hint="Restore the file as it was and put the change into a new one with the next number.",
            )
    return [migration for migration in known if migration.version not in checksums]
