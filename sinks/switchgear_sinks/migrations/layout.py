"""Layout: one node or a cluster, from the same SQL files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import Settings

DEDUPLICATION_WINDOW: Final = 10_000
"""Insert tokens that each table remembers: an insert that comes twice is one insert as long as fewer came between."""
_WINDOW_SECONDS: Final = 30 * 86_400

_LOCAL: Final = f"non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}"
_REPLICATED: Final = (
    f"replicated_deduplication_window = {DEDUPLICATION_WINDOW}, "
    f"replicated_deduplication_window_seconds = {_WINDOW_SECONDS}"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """``cluster`` is a name from ``system.clusters``: statements run on all of it, tables are replicated."""

    cluster: str | None = None
    retention_days: int = 30

    @classmethod
    def of(cls, settings: Settings) -> Layout:
        """As the settings want it.

        Raises:
            SettingsError: a cluster is named for the embedded engine, which is one process.
        """
        if settings.embedded and settings.clickhouse_cluster is not None:
            raise SettingsError(
                "clickhouse_cluster names a cluster, but clickhouse_url the embedded engine.",
                hint="Unset SWITCHGEAR_CLICKHOUSE_CLUSTER, or set SWITCHGEAR_CLICKHOUSE_URL to a server of the cluster.",
            )
        return cls(settings.clickhouse_cluster, settings.retention_days)

    def fill(self, statement: str) -> str:
        """Replace ``{on_cluster}``, ``{merge_tree}``, ``{aggregating_merge_tree}``, ``{deduplication}``, ``{retention_days}``."""
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
        """The clause, or nothing."""
        return "" if self.cluster is None else f"ON CLUSTER `{self.cluster}`"
