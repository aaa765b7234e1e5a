"""A reader's snapshot stays whole while the store merges and drops the parts that it links to."""

import asyncio
import time

import pytest

from switchgear_sinks.api.readonly import ReadOnlySql
from switchgear_sinks.sandbox import Readers, SnapshotError
from tests.support.engine import call, store_calls
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
    """Store rows in several parts that are not merged by themselves."""
    asyncio.run(store.command("SYSTEM STOP MERGES tool_metrics"))
    for _ in range(PARTS):
        asyncio.run(store_calls(store, [call("t")]))
    yield
    asyncio.run(store.command("SYSTEM START MERGES tool_metrics"))


def ask(store, query: str) -> list:
    return asyncio.run(store.query(query)).result_rows


def outdated(store, table: str) -> int:
    return ask(store, f"SELECT count() FROM system.parts WHERE table = '{table}' AND NOT active")[0][0]


def merge(store, table: str) -> None:
    asyncio.run(store.command(f"SYSTEM START MERGES {table}"))
    asyncio.run(store.command(f"OPTIMIZE TABLE {table} FINAL"))


def drop_rows(store) -> None:
    """Drop every part at once, and wait until the engine has removed their folders."""
    uuid = ask(store, "SELECT toString(uuid) FROM system.tables WHERE name = 'tool_metrics'")[0][0]
    before = [each.parent for each in store.folder.glob(f"store/*/{uuid}/*_*_*_*/data.bin")]
    assert len(before) == PARTS
    asyncio.run(store.command("TRUNCATE TABLE tool_metrics"))
    until(lambda: not any(each.exists() for each in before), seconds=60)


def test_query_reads_its_snapshot_after_the_store_merged_every_part_of_it(readers, store, parts):
    """chDB's own default removes a merged part at its next clean-up."""
    quick = f"ALTER TABLE tool_metrics MODIFY SETTING {QUICK_REMOVAL}"
    control = f"CREATE TABLE control (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS old_parts_lifetime = 0, {QUICK_REMOVAL}"
    for statement in (quick, "DETACH TABLE tool_metrics SYNC", "ATTACH TABLE tool_metrics", control):
        asyncio.run(store.command(statement))
    client = readers.connect()
    merge(store, "tool_metrics")
    for _ in range(PARTS):
        asyncio.run(store.command("INSERT INTO control VALUES (1)"))
    merge(store, "control")
    until(lambda: outdated(store, "control") == 0, state=lambda: "the clean-up runs")
    time.sleep(2)
    assert outdated(store, "tool_metrics") == PARTS
    assert client.raw_query(EVERY_ROW) == f"{PARTS}\n".encode()
    client.close()


def test_query_whose_parts_are_dropped_meanwhile_runs_on_another_snapshot(readers, store, parts):
    clients = []

    def connect():
        clients.append(readers.connect())
        if len(clients) == 1:
            drop_rows(store)
        return clients[-1]

    sql = ReadOnlySql(connect, embedded=True, max_rows=10, max_seconds=20)
    assert sql.run(EVERY_ROW).rows == [[0]]
    assert len(clients) == 2


def test_client_whose_parts_were_dropped_says_that_the_rows_changed(readers, store, parts):
    client = readers.connect()
    drop_rows(store)
    with pytest.raises(SnapshotError, match="rows changed during the query"):
        client.raw_query(EVERY_ROW)
    client.close()


def test_readers_engine_merges_no_parts_even_if_merges_are_started(readers, store, parts):
    """It would remove the merged parts afterwards: without Landlock, those of the store."""
    client = readers.connect()
    client.command("SYSTEM START MERGES")
    time.sleep(2)
    shown = client.raw_query("SELECT countIf(active), count() FROM system.parts WHERE table = 'tool_metrics'")
    assert shown == f"{PARTS}\t{PARTS}\n".encode()
    client.close()
