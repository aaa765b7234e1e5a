"""The ledger: which migrations this database has, with the checksums they had."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from switchgear_schemas.errors import SwitchgearError
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


_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationError(SwitchgearError):
    """The tables cannot be brought to this version; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. ``version`` orders them, ``checksum`` (SHA-256 of the text) shows that an applied one has changed."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Of the text as it is in the file, before the layout is filled in."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def statements(self, layout: Layout) -> list[str]:
        """The statements in order, for this layout. Each ends with ``;`` at the end of a line in the file."""
        lines = (line for line in self.text.splitlines() if not line.lstrip().startswith("--"))
        found = (part.strip() for part in re.split(r";[ \t]*(?:\n|$)", "\n".join(lines)))
        return [layout.fill(part) for part in found if part]


def load_migrations(folder: Traversable | None = None) -> list[Migration]:
    """Every file of ``folder`` (the package's own by default), in order.

    Raises:
        MigrationError: a file is misnamed, or two have the same number.
    """
    source = files("switchgear_sinks.migrations") / "sql" if folder is None else folder
    found: dict[int, Migration] = {}
    for entry in sorted(source.iterdir(), key=lambda each: each.name):
        if not entry.name.endswith(".sql"):
            continue
        match = _NAME.fullmatch(entry.name)
        if match is None:
            raise MigrationError(f"The migration file {entry.name} must be named like 0001_what_it_does.sql.")
        version = int(match[1])
        if version in found:
            raise MigrationError(f"Two migration files have the number {version:04}: rename {entry.name}.")
        found[version] = Migration(version, match[2], entry.read_text(encoding="utf-8"))
    return [found[version] for version in sorted(found)]
