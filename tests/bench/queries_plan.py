"""What ClickHouse would read for a query: the granules that the primary key and the skip indexes leave, and their total."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from switchgear_sinks.store import Store


class Recording:
    """A client that records SELECTs. Give it to a repository instead of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen: list[tuple[str, dict[str, Any]]] = []

    async def query(self, query: str, parameters: Any = None) -> Any:
        """Run a query and record it."""
        self.seen.append((query, dict(parameters or {})))
        return await self._store.query(query, parameters)

    async def command(self, cmd: str, parameters: Any = None) -> Any:
        """Run a statement."""
        return await self._store.command(cmd, parameters)


@dataclass(frozen=True, slots=True)
class Reading:
    """The granules of a table that a plan reads."""

    table: str
    """The table, or the projection that is read instead, such as ``per_hour``."""
    keys: tuple[str, ...]
    by_key: int
    selected: int
    total: int

    def __str__(self) -> str:
        skipped = f", {self.selected} after skip indexes" if self.selected < self.by_key else ""
        key = ", ".join(self.keys) or "no key column"
        return f"{self.table} by {key}: {self.by_key} of {self.total} granules{skipped}"


async def readings(store: Store, sql: str, parameters: dict[str, Any]) -> list[Reading]:
    """Return what ``EXPLAIN indexes = 1`` reports for every table that the query reads."""
    answer = await store.query(f"EXPLAIN json = 1, indexes = 1 {sql}", parameters)
    plans = json.loads("\n".join(str(row[0]) for row in answer.result_rows))
    return [found for plan in plans for found in _tables(plan["Plan"])]


def _tables(node: dict[str, Any]) -> Iterator[Reading]:
    if node.get("Node Type") == "ReadFromMergeTree":
        steps = node.get("Indexes", [])
        keys = next((step for step in steps if step["Type"] == "PrimaryKey"), None)
        if steps:
            by_key = (keys or steps[-1])["Selected Granules"]
            yield Reading(
                str(node.get("Description", "?")).split(".")[-1],
                tuple(keys.get("Keys", ())) if keys else (),
                by_key,
                steps[-1]["Selected Granules"],
                steps[0]["Initial Granules"],
            )
    for child in node.get("Plans", ()):
        yield from _tables(child)
