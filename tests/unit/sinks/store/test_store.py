"""The embedded engine, opened for real."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from switchgear_schemas.errors import StoreUnavailableError
from switchgear_schemas.settings import load_settings
from switchgear_sinks.store import Store, StoreLocation, open_store
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow

OPEN_AND_SAY = """
import asyncio, sys
from switchgear_schemas.settings import load_settings
from switchgear_sinks.store import open_store
async def main():
    try:
        async with await open_store(load_settings(clickhouse_url="chdb:" + sys.argv[1])):
            print("opened")
    except Exception as error:
        print(type(error).__name__, error)
asyncio.run(main())
"""


async def opened(folder: Path) -> Store:
    return await open_store(load_settings(clickhouse_url=f"chdb:{folder}"))


def in_another_process(folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", OPEN_AND_SAY, str(folder)], capture_output=True, text=True, timeout=READY_S, check=True
    ).stdout


async def test_the_database_is_selected_and_what_is_written_can_be_read(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        assert store.embedded
        await store.command("CREATE TABLE t (a UInt8, b String) ENGINE = MergeTree ORDER BY a")
        await store.raw_insert("t", b'{"a":1,"b":"x"}\n{"a":2,"b":"y"}')
        found = await store.query("SELECT b FROM t WHERE a = {a:UInt8}", {"a": 2})
        assert found.result_rows == [("y",)]
        assert await store.command("SELECT currentDatabase()") == "switchgear"


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.command("CREATE TABLE kept (a UInt8) ENGINE = MergeTree ORDER BY a")
        await store.raw_insert("kept", b'{"a":1}')
    async with await opened(tmp_path) as store:
        assert (await store.query("SELECT count() FROM kept")).result_rows == [(1,)]


async def test_the_error_for_a_second_process_names_the_owner_of_the_folder_and_what_to_do(tmp_path: Path) -> None:
    async with await opened(tmp_path):
        said = await asyncio.to_thread(in_another_process, tmp_path)
    assert said.startswith("StoreUnavailableError")
    assert f"pid {os.getpid()}" in said
    assert "use its HTTP API" in said
    assert in_another_process(tmp_path) == "opened\n", "the folder is free again"


async def test_two_stores_of_one_process_share_the_folder(tmp_path: Path) -> None:
    async with await opened(tmp_path) as one:
        async with await opened(tmp_path) as two:
            assert await two.ping()
        assert await one.ping(), "the first still has it"


async def test_a_folder_that_cannot_be_made_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailableError, match=r"cannot be used: .*choose another folder"):
        await opened(tmp_path / "file" / "clickhouse")


async def test_a_server_that_is_away_is_reported_in_one_sentence_and_in_time() -> None:
    started = time.monotonic()
    with pytest.raises(
        StoreUnavailableError, match=r"http://127.0.0.1:9/x could not be used: Connection refused. Start it"
    ):
        await open_store(load_settings(clickhouse_url="http://127.0.0.1:9/x", clickhouse_connect_timeout_s=2))
    assert time.monotonic() - started < 10


async def test_queries_of_one_client_pool_run_at_the_same_time(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        pool = store.client_pool("test", 2)
        await asyncio.gather(pool.query("SELECT 1"), pool.query("SELECT 1"))
        query = "SELECT toFloat64(now64(6)), sleep(3)"
        one, other = await asyncio.gather(pool.query(query), pool.query(query))
        assert abs(one.result_rows[0][0] - other.result_rows[0][0]) < 3, "neither waits until the other ends"


async def test_a_slow_read_does_not_hold_up_a_write(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await store.command("SELECT 1")
        reads = [asyncio.create_task(store.query("SELECT sleep(3)")) for _ in range(4)]
        await asyncio.sleep(0.2)
        await store.command("CREATE TABLE quick (a UInt8) ENGINE = MergeTree ORDER BY a")
        assert not any(each.done() for each in reads)
        await asyncio.gather(*reads)


async def test_a_read_only_client_pool_can_neither_write_nor_free_itself(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        pool = store.client_pool("sql", 1, {"readonly": 1, "max_result_rows": 5})
        assert (await pool.query("SELECT 1")).result_rows == [(1,)]
        for statement in ("CREATE TABLE x (a UInt8) ENGINE = Memory", "SET readonly = 0", "SET max_result_rows = 100"):
            with pytest.raises(DatabaseError) as refused:
                await pool.command(statement)
            assert refused.value.code == 164
        with pytest.raises(DatabaseError) as limited:
            await pool.query("SELECT number FROM numbers(6)")
        assert limited.value.code == 396


async def test_a_select_that_failed_half_way_leaves_nothing_in_the_next_answer(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        pool = store.client_pool("one", 1)
        failing = "SELECT number, throwIf(number = 200000) FROM numbers(300000)"
        with pytest.raises(DatabaseError):
            await pool.run(
                lambda client: client.raw_query(failing, settings={"max_block_size": 1000}, fmt="JSONEachRow")
            )
        answer = await pool.run(lambda client: client.raw_query("SELECT 1 AS a", fmt="JSONEachRow"))
        assert answer == b'{"a":1}\n'


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    pool = store.client_pool("extra", 1)
    await store.close()
    for work in (store.query("SELECT 1"), store.command("SELECT 1"), pool.query("SELECT 1")):
        with pytest.raises(StoreUnavailableError, match=r"closed"):
            await work
    await store.close()


async def test_a_client_of_ones_own_works_on_the_same_data(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        client = await asyncio.to_thread(store.connect, {"max_result_rows": 1})
        try:
            assert client.query("SELECT currentDatabase()").result_rows == [("switchgear",)]
        finally:
            client.close()
        assert await store.ping()


async def test_a_database_can_be_looked_for_without_being_made(tmp_path: Path) -> None:
    settings = load_settings(clickhouse_url=f"chdb:{tmp_path}")
    for _ in range(2):
        async with await open_store(settings, create=False) as store:
            assert not store.database_exists
            assert await store.command("SELECT count() FROM system.databases WHERE name = 'switchgear'") == 0
    async with await open_store(settings) as store:
        assert store.database_exists
    async with await open_store(settings, create=False) as store:
        assert store.database_exists
        assert await store.command("SELECT currentDatabase()") == "switchgear"


def test_on_a_cluster_the_database_is_made_on_all_of_it() -> None:
    where = StoreLocation.parse("http://localhost/metrics", Path())
    assert Store(where, 1).creation == "CREATE DATABASE IF NOT EXISTS `metrics`"
    assert Store(where, 1, "main").creation == "CREATE DATABASE IF NOT EXISTS `metrics` ON CLUSTER `main`"
