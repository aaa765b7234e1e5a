"""Migrations against the real engine."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from switchgear_schemas.errors import SettingsError
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import (
    LEDGER,
    Layout,
    Migration,
    MigrationError,
    apply_retention,
    load_migrations,
    migrate,
    pending,
    planned,
)
from switchgear_sinks.store import Store, open_store
from tests.support.table import table

ONE = Migration(1, "one", "-- first\nCREATE TABLE IF NOT EXISTS one (a UInt8) ENGINE = {merge_tree} ORDER BY a;\n")
TWO = Migration(2, "two", "CREATE TABLE IF NOT EXISTS two (a UInt8) ENGINE = {merge_tree} ORDER BY a;\n")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        yield opened


async def tables(store: Store) -> set[str]:
    found = await store.query("SELECT name FROM system.tables WHERE database = currentDatabase()")
    return {column for (column,) in found.result_rows}


async def test_migrate_creates_every_table_once(store: Store) -> None:
    applied = await migrate(store)
    assert [each.version for each in applied] == sorted({each.version for each in load_migrations()})
    assert {"tool_metrics", "tool_errors", "tool_counts_1m", "tool_latency_15m", "circuit_transitions"} <= await tables(
        store
    )
    assert await migrate(store) == []


async def test_pending_lists_the_migrations_and_changes_nothing(store: Store) -> None:
    assert [each.name for each in await pending(store)] == [each.name for each in load_migrations()]
    assert await tables(store) == set()


async def test_migrate_applies_only_new_files(store: Store) -> None:
    assert await migrate(store, migrations=[ONE]) == [ONE]
    assert await pending(store, [ONE, TWO]) == [TWO]
    assert await migrate(store, migrations=[ONE, TWO]) == [TWO]
    assert await tables(store) == {"one", "two", LEDGER}


async def test_changed_migration_file_is_an_error_that_names_it(store: Store) -> None:
    await migrate(store, migrations=[ONE])
    changed = Migration(1, "one", ONE.text + "-- changed\n")
    with pytest.raises(MigrationError, match=r"0001_one was applied on .* with other contents.*Restore the file"):
        await migrate(store, migrations=[changed])
    with pytest.raises(MigrationError):
        await pending(store, [changed])


async def test_a_database_from_before_the_first_release_is_refused_with_what_to_do(store: Store) -> None:
    await migrate(store, migrations=[Migration(1, "tool_metrics", ONE.text), TWO])
    for refused in (migrate(store), pending(store), planned(store, Layout())):
        with pytest.raises(
            MigrationError, match=r"before version 0\.1\.0: its migration 0001 is tool_metrics, not baseline"
        ) as found:
            await refused
        assert "--rewind" in found.value.hint
    assert await tables(store) == {"one", "two", LEDGER}


async def test_migration_can_be_repeated_after_a_statement_failed(store: Store) -> None:
    half = Migration(1, "half", ONE.text + "CREATE TABLE nonsense;\n")
    with pytest.raises(MigrationError, match=r"Migration 0001_half failed: Code"):
        await migrate(store, migrations=[half])
    assert await pending(store, [ONE]) == [ONE], "it did not enter the ledger"
    assert await migrate(store, migrations=[ONE, TWO]) == [ONE, TWO]


async def test_a_ledger_of_a_newer_version_is_accepted(store: Store) -> None:
    await migrate(store, migrations=[ONE, TWO])
    assert await migrate(store, migrations=[ONE]) == []


def test_statements_are_split_at_semicolons_that_end_a_line_without_comments() -> None:
    text = "-- a; comment\nSELECT ';x' ;\n\nSELECT 2\nFROM t;\n-- the end"
    assert Migration(1, "x", text).statements(Layout()) == ["SELECT ';x'", "SELECT 2\nFROM t"]


def test_migration_file_fits_one_node_and_a_cluster() -> None:
    text = "CREATE TABLE t {on_cluster} ENGINE = {aggregating_merge_tree} SETTINGS {deduplication};"
    (alone,) = Migration(1, "x", text).statements(Layout())
    (together,) = Migration(1, "x", text).statements(Layout(cluster="main"))
    assert alone == (
        "CREATE TABLE t  ENGINE = AggregatingMergeTree SETTINGS non_replicated_deduplication_window = 10000"
    )
    assert "ON CLUSTER `main` ENGINE = ReplicatedAggregatingMergeTree" in together
    assert "replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 2592000" in together


@table("migration", load_migrations(), ids=lambda each: each.name)
def test_every_migration_statement_can_be_repeated_and_is_filled_in(migration: Migration) -> None:
    for statement in migration.statements(Layout(cluster="c")):
        fills = re.match(r"INSERT INTO (\w+)\n.*WHERE .*\(SELECT [\w()]+ FROM \1\)", statement, re.DOTALL)
        again = re.match(r"CREATE (TABLE|MATERIALIZED VIEW|VIEW) IF NOT EXISTS|CREATE OR REPLACE VIEW|ALTER", statement)
        assert fills or (again and "ON CLUSTER `c`" in statement)
        assert not re.search(r"\{[a-z_]+\}", statement)


def test_two_migration_files_with_one_number_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("SELECT 1;")
    (tmp_path / "0001_b.sql").write_text("SELECT 1;")
    with pytest.raises(MigrationError, match=r"Two migration files have the number 0001: rename 0001_b.sql"):
        load_migrations(tmp_path)


def test_misnamed_migration_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    assert load_migrations(tmp_path) == []
    (tmp_path / "second.sql").write_text("SELECT 1;")
    with pytest.raises(MigrationError, match=r"second.sql must be named like 0001_what_it_does.sql"):
        load_migrations(tmp_path)


async def test_every_table_and_every_column_has_a_comment(store: Store) -> None:
    await migrate(store)
    silent = await store.query(
        "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND comment = '' "
        "AND table NOT LIKE '%_mv' AND table NOT IN (SELECT name FROM system.tables WHERE engine = 'View')"
    )
    assert silent.result_rows == []
    untold = await store.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND comment = '' AND name NOT LIKE '%_mv'"
    )
    assert untold.result_rows == []


async def test_the_raw_table_has_a_column_for_every_field_of_the_contract(store: Store) -> None:
    await migrate(store)
    for name in ("tool_metrics", "tool_errors"):
        found = await store.query(
            "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {t:String}", {"t": name}
        )
        assert set(ToolExecution.model_fields) <= {column for (column,) in found.result_rows}


@pytest.mark.deep
async def test_changed_retention_is_applied_once_at_the_next_start(store: Store) -> None:
    await migrate(store, Layout(retention_days=30))
    assert await apply_retention(store, Layout(retention_days=30)) == []
    assert len(await apply_retention(store, Layout(retention_days=7))) == 1
    assert await apply_retention(store, Layout(retention_days=7)) == []
    await store.raw_insert("tool_metrics", b'{"tool_name":"x","status":"error"}')
    assert (await store.query("SELECT retention_days FROM tool_metrics")).result_rows == [(7,)]


async def test_planned_returns_the_statements_of_a_start_and_changes_nothing(store: Store) -> None:
    fresh = await planned(store, Layout())
    assert fresh[0].startswith("CREATE TABLE IF NOT EXISTS schema_migrations")
    assert len(fresh) == 1 + sum(len(each.statements(Layout())) for each in load_migrations())
    assert await tables(store) == set()
    await migrate(store)
    assert await planned(store, Layout()) == []
    (change,) = await planned(store, Layout(retention_days=7))
    assert change == "ALTER TABLE tool_metrics  MODIFY COLUMN retention_days UInt16 MATERIALIZED 7"
    assert all(
        "ON CLUSTER `main`" in statement or statement.startswith("INSERT")
        for statement in await planned(store, Layout(cluster="main", retention_days=7))
    )


def test_the_layout_follows_the_settings() -> None:
    there = load_settings(clickhouse_url="http://localhost:8123", clickhouse_cluster="main", retention_days=9)
    assert Layout.of(there) == Layout("main", 9)
    assert Layout.of(load_settings(retention_days=9)) == Layout(None, 9)
    with pytest.raises(SettingsError, match="the embedded engine"):
        Layout.of(load_settings(clickhouse_cluster="main"))


@pytest.mark.deep
async def test_rows_expire_by_their_arrival_and_not_by_the_clock_of_their_producer(store: Store) -> None:
    await migrate(store, Layout(retention_days=1))
    await store.raw_insert(
        "tool_metrics",
        b'{"tool_name":"old call","status":"error","recorded_at":"2022-08-22 03:52:19"}\n'
        b'{"tool_name":"long here","status":"error","kafka_timestamp":1600000000.000}',
    )
    await store.command("OPTIMIZE TABLE tool_metrics FINAL")
    await store.command("OPTIMIZE TABLE tool_errors FINAL")
    for name in ("tool_metrics", "tool_errors"):
        assert (await store.query(f"SELECT tool_name FROM {name}")).result_rows == [("old call",)]
