"""Rows that break a constraint, found in one query, on the real engine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer.constraints import Constraints, constraint_of
from switchgear_sinks.writer.rows import ExecutionRows, Rows
from tests.support.records import execution, records


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(load_settings(clickhouse_url=f"chdb:{tmp_path}")) as opened:
        await migrate(opened)
        yield opened


def rows(*values: bytes) -> Rows:
    return ExecutionRows().rows(list(records(*values, first=100)))


def tools(found: Rows) -> list[str]:
    return [json.loads(value)["tool_name"] for value in found.values]


async def rejected(store: Store, check: str, found: Rows) -> list[str]:
    """Tools of the rows that are left once those that break ``check`` are out."""
    await store.command(f"ALTER TABLE tool_metrics ADD CONSTRAINT `a rule` CHECK {check}")
    before = len(found.values)
    count = await Constraints(store, "tool_metrics").reject("a rule", found)
    assert count == before - len(found.values) == len(found.dead)
    assert len(found.values) == len(found.records) == len(found.canonical)
    return tools(found)


def test_the_name_is_what_clickhouse_says() -> None:
    assert constraint_of("Constraint `no_poison` for table x.y (uuid) is violated at row 3.") == "no_poison"
    assert constraint_of("Cannot parse input") is None


async def test_all_offenders_are_found_at_once_with_the_rule_in_their_reason(store: Store) -> None:
    found = rows(*(execution(f"t{place}", user_id="bad" if place % 3 == 0 else "ok") for place in range(10)))
    assert await rejected(store, "user_id != 'bad'", found) == ["t1", "t2", "t4", "t5", "t7", "t8"]
    assert found.dead[0].reason == "ClickHouse refuses the row: constraint `a rule` is violated: user_id != 'bad'"
    assert [letter.offset for letter in found.dead] == [100, 103, 106, 109]


async def test_quotes_and_backslashes_in_messages_and_rules_stay_what_they_are(store: Store) -> None:
    nasty = ["it's", "back\\slash", "');DROP TABLE tool_metrics;--", "tab\tnewline\n", "größe 💥", "\\'"]
    found = rows(*(execution(f"t{place}", user_id=text) for place, text in enumerate(nasty)))
    assert await rejected(store, "user_id NOT IN ('it\\'s', 'back\\\\slash')", found) == ["t2", "t3", "t4", "t5"]
    assert (await store.query("SELECT count() FROM tool_metrics")).result_rows == [(0,)]


async def test_a_rule_over_several_columns_and_types_is_judged_as_the_table_does(store: Store) -> None:
    found = rows(
        execution("slow", execution_time_ms=10_000, status="success"),
        execution("failed", execution_time_ms=10_000, status="error"),
        execution("quick", execution_time_ms=1, status="success"),
    )
    assert await rejected(store, "execution_time_ms < 5000 OR status = 'error'", found) == ["failed", "quick"]


async def test_a_row_that_leaves_a_column_in_question_to_its_default_is_not_judged(store: Store) -> None:
    """recorded_at comes from Kafka then: as a bare value it would look like 1970."""
    found = rows(execution("without", recorded_at=None), execution("with", recorded_at="2001-01-01T00:00:00Z"))
    assert await rejected(store, "toYear(recorded_at) > 2010", found) == ["without"]


@pytest.mark.parametrize("check", ["retention_days > 10000", "1 = 0"])
async def test_a_rule_that_cannot_be_judged_rejects_nothing(store: Store, check: str) -> None:
    """A computed column, or none at all: ClickHouse names the rows itself."""
    assert await rejected(store, check, rows(execution("a"), execution("b"))) == ["a", "b"]


async def test_a_constraint_that_is_gone_rejects_nothing(store: Store) -> None:
    found = rows(execution("a"))
    assert await Constraints(store, "tool_metrics").reject("no such", found) == 0
    assert tools(found) == ["a"]


async def test_no_rows_are_no_question(store: Store) -> None:
    assert await rejected(store, "user_id != 'bad'", rows()) == []
