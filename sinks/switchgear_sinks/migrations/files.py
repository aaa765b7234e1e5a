"""Migration files: SQL for one node or a cluster, numbered, with checksums."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_schemas.errors import SettingsError, SwitchgearError
from switchgear_schemas.settings import Settings

DEDUPLICATION_WINDOW: Final = 10_000
"""Insert tokens that each table remembers. A repeated insert has no effect while fewer inserts lie between."""
_WINDOW_SECONDS: Final = 30 * 86_400
_LOCAL: Final = f"non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}"
_REPLICATED: Final = (
    f"replicated_deduplication_window = {DEDUPLICATION_WINDOW}, "
    f"replicated_deduplication_window_seconds = {_WINDOW_SECONDS}"
)
_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationError(SwitchgearError):
    """The tables can't be brought to this version. The message names the file and what to do."""


@contextmanager
def explained(doing: str, hint: str) -> Iterator[None]:
    """Turn ClickHouse's refusal into one sentence that says what was being done.

    Raises:
        MigrationError: In place of ClickHouse's error.
    """
    try:
        yield
    except ClickHouseError as error:
        reason = " ".join(str(error).split())[:400]
        raise MigrationError(f"{doing} failed: {reason}", hint=hint) from error


@dataclass(frozen=True, slots=True)
class Layout:
    """One node or a cluster, from the same SQL files.

    Args:
        cluster: A name from ``system.clusters``. Statements run on all of it, and the tables are replicated.
        retention_days: How long rows are kept where no rule says otherwise.
    """

    cluster: str | None = None
    retention_days: int = 30

    @classmethod
    def of(cls, settings: Settings) -> Layout:
        """Return the layout that the settings ask for.

        Raises:
            SettingsError: A cluster is set for the embedded engine, which is one process.
        """
        if settings.embedded and settings.clickhouse_cluster is not None:
            raise SettingsError(
                f"clickhouse_cluster is {settings.clickhouse_cluster!r}, but clickhouse_url names the embedded engine.",
                hint="Unset SWITCHGEAR_CLICKHOUSE_CLUSTER, or set SWITCHGEAR_CLICKHOUSE_URL to a server of the cluster.",
            )
        return cls(settings.clickhouse_cluster, settings.retention_days)

    def fill(self, statement: str) -> str:
        """Replace the placeholders of a migration file, such as ``{on_cluster}`` and ``{merge_tree}``."""
        replicated = "" if self.cluster is None else "Replicated"
        values = {
            "{on_cluster}": self.on_cluster,
            "{merge_tree}": f"{replicated}MergeTree",
            "{aggregating_merge_tree}": f"{replicated}AggregatingMergeTree",
            "{deduplication}": _LOCAL if self.cluster is None else _REPLICATED,
            "{retention_days}": str(self.retention_days),
        }
        for placeholder, value in values.items():
            statement = statement.replace(placeholder, value)
        return statement

    @property
    def on_cluster(self) -> str:
        """The ``ON CLUSTER`` clause; empty for one node."""
        return "" if self.cluster is None else f"ON CLUSTER `{self.cluster}`"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file.

    Args:
        version: Its number. Files are applied in this order.
        name: Its name without the number.
        text: Its SQL, with the placeholders of :meth:`Layout.fill`.
    """

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text. It shows whether an applied file was changed."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def statements(self, layout: Layout) -> list[str]:
        """Return the statements in order. In the file each ends with ``;`` at the end of a line."""
        lines = (line for line in self.text.splitlines() if not line.lstrip().startswith("--"))
        found = (part.strip() for part in re.split(r";[ \t]*(?:\n|$)", "\n".join(lines)))
        return [layout.fill(part) for part in found if part]


def load_migrations(folder: Traversable | None = None) -> list[Migration]:
    """Return every migration of ``folder`` (the package's own by default), in order.

    Raises:
        MigrationError: A file is misnamed, or two have the same number.
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
