"""Insert tokens of the embedded engine whose data a kill prevented."""

import shutil
import subprocess
import sys

import pytest

from switchgear_sinks.store.token_repair import forget_tokens_without_data
from tests.support.limits import READY_S

INSERT = """
import asyncio, sys
from switchgear_schemas.settings import load_settings
from switchgear_sinks.store import open_store

async def main():
    async with await open_store(load_settings(clickhouse_url="chdb:" + sys.argv[1])) as store:
        await store.command(
            "CREATE TABLE IF NOT EXISTS t (a UInt32) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100"
        )
        for token in sys.argv[2:]:
            await store.command(f"INSERT INTO t SETTINGS insert_deduplication_token = '{token}' VALUES (1)")
        print((await store.query("SELECT count() FROM t")).result_rows[0][0])

asyncio.run(main())
"""


@pytest.fixture
def insert(tmp_path):
    def rows(*tokens):
        command = [sys.executable, "-c", INSERT, str(tmp_path / "clickhouse"), *tokens]
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.splitlines()[-1])

    return rows


@pytest.mark.slow
def test_an_insert_whose_token_was_recorded_without_its_data_is_stored_when_repeated(insert, tmp_path):
    assert insert("first", "second") == 2
    (part,) = (tmp_path / "clickhouse").glob("store/*/*/all_2_2_0")
    shutil.rmtree(part)  # a kill before the rename leaves exactly this
    assert insert("first", "second") == 2
    assert insert("first", "second") == 2


@pytest.fixture
def table(tmp_path):
    folder = tmp_path / "store" / "abc" / "abcdef"
    (folder / "deduplication_logs").mkdir(parents=True)
    return folder


def test_tokens_of_merged_and_mutated_parts_are_kept(table, tmp_path):
    (table / "202611_1_3_1_7").mkdir()
    record = table / "deduplication_logs" / "deduplication_log_1.txt"
    record.write_text("1\t202611_1_1_0\ta\n1\t202611_3_3_0\tb\n")
    assert forget_tokens_without_data(tmp_path) == 0
    assert record.read_text().count("\n") == 2


def test_only_the_newest_log_gets_the_dropped_tokens_and_a_second_look_finds_none(table, tmp_path):
    (table / "202611_1_1_0").mkdir()
    (table / "tmp_insert_202611_2_2_0").mkdir()
    older, newest = (table / "deduplication_logs" / f"deduplication_log_{number}.txt" for number in (9, 10))
    older.write_text("1\t202611_1_1_0\ta\n1\t202612_1_1_0\tother month\n")
    newest.write_text("1\t202611_2_2_0\tb\n1\t202611_3_3_0\tc\n2\t202611_3_3_0\tc\n")
    assert forget_tokens_without_data(tmp_path) == 2
    assert newest.read_text().endswith("2\t202612_1_1_0\tother month\n2\t202611_2_2_0\tb\n")
    assert older.read_text().count("\n") == 2
    assert forget_tokens_without_data(tmp_path) == 0


def test_a_folder_without_tables_has_no_tokens(tmp_path):
    assert forget_tokens_without_data(tmp_path) == 0
