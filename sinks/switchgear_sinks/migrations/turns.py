"""One process at a time changes the tables of a server.

A migration detaches and attaches views. Two processes that do so at once would fail, or leave a view detached. So a process holds a lock
while it migrates. The lock is a table, because ClickHouse creates a table exactly once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.migrations.files import MigrationError
from switchgear_sinks.migrations.layout import Layout
from switchgear_sinks.store import Store

log = structlog.get_logger()

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
