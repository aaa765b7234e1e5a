"""A reader's snapshot stays whole while the store merges and drops the parts that it links to."""

import asyncio
import time
from pathlib import Path

import pytest

from switchgear_api.readonly import ReadOnlySql
from switchgear_api.sandbox.process import SnapshotError
from switchgear_api.sandbox.readers import Readers
from tests.support.engine import call, store_calls
from tests.support.limits import HAPPEN_S
from tests.support.waiting import until

PARTS = 5
QUICK_REMOVAL = (
    "cleanup_delay_period = 0, max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, "
    "cleanup_thread_preferred_points_per_iteration = 0"
)
EVERY_ROW = "SELECT count() FROM tool_metrics WHERE NOT ignore(service)"


@pytest.fixture
def readers(engine):
    owner = Readers(engine.folder, engine.database, max_seconds=30)
    yield owner
    owner.close()


@pytest.fixture
def parts(store):
    """Store rows in several parts that are not merged by themselves, and return their folders."""
    asyncio.run(store.command("SYSTEM STOP MERGES tool_metrics"))
    for _ in range(PARTS):
        asyncio.run(store_calls(store, [call("t")]))
    rows = ask(store, "SELECT path FROM system.parts WHERE table = 'tool_metrics' AND active AND rows > 0")
    folders = [Path(row[0]) for row in rows]
    assert len(folders) == PARTS
    yield folders
    asyncio.run(store.command("SYSTEM START MERGES tool_metrics"))


def ask(store, query: str) -> list:
    return asyncio.run(store.query(query)).result_rows


def merge(store, table: str) -> None:
    asyncio.run(store.command(f"SYSTEM START MERGES {table}"))
    asyncio.run(store.command(f"OPTIMIZE TABLE {table} FINAL"))


def drop_rows(store, parts: list[Path]) -> None:
    asyncio.run(store.command("TRUNCATE TABLE tool_metrics"))
    until(lambda: not any(each.exists() for each in parts), seconds=HAPPEN_S)


def test_query_reads_its_snapshot_after_the_store_merged_every_part_of_it(readers, store, parts):
    """chDB's own default removes a merged part at its next clean-up."""
    quick = f"ALTER TABLE tool_metrics MODIFY SETTING {QUICK_REMOVAL}"
    control = (
        f"CREATE TABLE control (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS old_parts_lifetime = 0, {QUICK_REMOVAL}"
    )
    for statement in (quick, "DETACH TABLE tool_metrics SYNC", "ATTACH TABLE tool_metrics", control):
        asyncio.run(store.command(statement))
    client = readers.connect()
    merge(store, "tool_metrics")
    for _ in range(PARTS):
        asyncio.run(store.command("INSERT INTO control VALUES (1)"))
    merge(store, "control")
    until(lambda: ask(store, "SELECT count() FROM system.parts WHERE table = 'control'") == [(1,)])
    time.sleep(2)  # tool_metrics was merged before, so its clean-up is over too
    assert all(each.exists() for each in parts)
    assert client.raw_query(EVERY_ROW) == f"{PARTS}\n".encode()
    client.close()


@pytest.mark.deep
def test_query_whose_parts_are_dropped_meanwhile_runs_on_another_snapshot(readers, store, parts):
    clients = []

    def connect():
        clients.append(readers.connect())
        if len(clients) == 1:
            drop_rows(store, parts)
        return clients[-1]

    sql = ReadOnlySql(connect, embedded=True, max_rows=10, max_seconds=20)
    assert sql.run(EVERY_ROW).rows == [[0]]
    assert len(clients) == 2


@pytest.mark.deep
def test_client_whose_parts_were_dropped_says_that_the_rows_changed(readers, store, parts):
    client = readers.connect()
    drop_rows(store, parts)
    with pytest.raises(SnapshotError, match="rows changed during the query"):
        client.raw_query(EVERY_ROW)
    client.close()


@pytest.mark.deep
def test_readers_engine_merges_no_parts_even_if_merges_are_started(readers, store, parts):
    """It would remove the merged parts afterwards: without Landlock, those of the store."""
    client = readers.connect()
    client.command("SYSTEM START MERGES")
    time.sleep(2)
    shown = client.raw_query(
        "SELECT countIf(active AND rows > 0), countIf(NOT active) FROM system.parts WHERE table = 'tool_metrics'"
    )
    assert shown == f"{PARTS}\t0\n".encode()
    client.close()
