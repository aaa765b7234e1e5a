"""Retention by tenant, against the real engine."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import (
    Layout,
    RetentionRules,
    apply_retention,
    migrate,
    plan_retention,
    read_rules,
    restamp,
    write_rule,
)
from switchgear_sinks.migrations import retention as rules_module
from switchgear_sinks.store import Store, open_store
from tests.support.engine import copy_migrated

DAY_S = 86_400


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    copy_migrated(tmp_path)
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        yield opened


async def arrive(store: Store, tenant: str, days_ago: float) -> None:
    """A failed call of ``tenant`` that came so many days ago."""
    at = int(time.time() - days_ago * DAY_S)
    row = b'{"tool_name":"x","status":"error","tenant":"%b","kafka_timestamp":%d.000,"kafka_offset":%d}'
    await store.raw_insert("tool_metrics", row % (tenant.encode(), at, at))


async def stamped(store: Store, table: str = "tool_metrics") -> list[tuple[str, int]]:
    found = await store.query(f"SELECT tenant, retention_days FROM {table} ORDER BY tenant, kafka_timestamp")
    return [tuple(row) for row in found.result_rows]


def test_retention_rules_are_an_expression_of_the_tenant() -> None:
    assert RetentionRules(30).expression == "30"
    rules = RetentionRules(30, {"b'c": 90, "a": 7})
    assert rules.expression == r"transform(toString(tenant), ['a', 'b\'c'], [7, 90], 30)"
    assert (rules.days("a"), rules.days("nobody")) == (7, 30)


async def test_new_rows_get_the_days_of_their_tenant_and_others_the_default(store: Store) -> None:
    await write_rule(store, "acme", 7)
    await write_rule(store, "it's", 365)
    assert len(await apply_retention(store, Layout())) == 1
    for tenant in ("acme", "it's", "other", ""):
        await arrive(store, tenant, 0)
    expected = [("", 30), ("acme", 7), ("it's", 365), ("other", 30)]
    assert await stamped(store) == expected
    assert await stamped(store, "tool_errors") == expected


@pytest.mark.deep
async def test_unchanged_retention_rules_are_applied_once_and_survive_a_restart(store: Store) -> None:
    await write_rule(store, "acme", 7)
    await apply_retention(store, Layout())
    assert await plan_retention(store, Layout()) == []
    await migrate(store, Layout(retention_days=30))
    assert await read_rules(store, 30) == RetentionRules(30, {"acme": 7})


async def test_retention_set_by_command_overrides_the_setting_until_it_is_removed(store: Store) -> None:
    await write_rule(store, None, 60)
    await write_rule(store, None, 61)
    assert await read_rules(store, 30) == RetentionRules(61, {}, from_command=True)
    await migrate(store, Layout(retention_days=5))
    await arrive(store, "a", 0)
    assert await stamped(store) == [("a", 61)]
    await write_rule(store, None, None)
    assert await read_rules(store, 5) == RetentionRules(5)


@pytest.mark.deep
async def test_tenant_whose_rule_is_removed_has_the_default_retention(store: Store) -> None:
    await write_rule(store, "acme", 7)
    await write_rule(store, "acme", None)
    await apply_retention(store, Layout())
    await arrive(store, "acme", 0)
    assert await stamped(store) == [("acme", 30)]


async def test_stored_rows_keep_their_days_until_they_are_restamped(store: Store) -> None:
    for tenant in ("acme", "other"):
        for age in (1, 10):
            await arrive(store, tenant, age)
    await write_rule(store, "acme", 7)
    await apply_retention(store, Layout())
    assert await stamped(store) == [("acme", 30), ("acme", 30), ("other", 30), ("other", 30)]
    await restamp(store, Layout(), wait=True)
    expected = [("acme", 7), ("other", 30), ("other", 30)]
    for table in ("tool_metrics", "tool_errors"):
        await store.command(f"OPTIMIZE TABLE {table} FINAL")
        assert await stamped(store, table) == expected


@pytest.mark.deep
async def test_a_longer_retention_keeps_rows_that_would_have_gone(store: Store) -> None:
    await arrive(store, "acme", 29)
    await write_rule(store, "acme", 400)
    await apply_retention(store, Layout())
    await restamp(store, Layout(), wait=True)
    for table in ("tool_metrics", "tool_errors"):
        assert await stamped(store, table) == [("acme", 400)]


async def test_retention_days_out_of_range_are_refused(store: Store) -> None:
    for days in (0, -1, 3651):
        with pytest.raises(SwitchgearError, match=r"from 1 to 3650 days"):
            await write_rule(store, None, days)


async def test_the_number_of_tenants_with_a_rule_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "MAX_TENANTS", 2)
    for tenant in ("a", "b", "b"):
        await write_rule(store, tenant, 7)
    with pytest.raises(SwitchgearError, match="No more than 2 tenants"):
        await write_rule(store, "c", 7)


async def test_the_embedded_engine_keeps_no_logs_of_its_own(store: Store) -> None:
    """Those of a server are bounded by deploy/clickhouse/system_logs.xml; here there is nothing to bound."""
    found = await store.query(
        "SELECT name FROM system.tables WHERE database = 'system' AND name LIKE '%\\_log' AND engine LIKE '%MergeTree'"
    )
    assert found.result_rows == []
