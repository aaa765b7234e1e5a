"""The tables of failed and of slow calls have each column of such a call, as it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from switchgear_sinks.store import Store
from tests.support.engine import call, store_calls

PLAIN = {"status": "error", "error_class": "transport", "execution_time_ms": 6_000}
FULL: dict[str, Any] = {
    "status": "timeout", "error_class": "timeout", "execution_time_ms": 7_000, "overdue_ms": 5_500, "tenant": "acme",
    "target": "example.org", "credential": "c", "evidence": "status_only", "reporter": "token abc", "generation": 2,
    "lease_id": "2.1", "family_generation": 3, "family_lease_id": "3.1", "retry_after_s": 1.5, "input_tokens": 7,
}  # fmt: skip
EMPTY = {
    "overdue_ms": None, "target": "", "credential": "", "evidence": "full", "reporter": "", "family_generation": None,
    "family_lease_id": "",
}  # fmt: skip


@pytest.mark.parametrize("table", ["tool_errors", "tool_slow_calls"])
async def test_a_failed_and_slow_call_is_copied_with_every_column(store: Store, table: str) -> None:
    await store_calls(store, [call(**PLAIN), call(**FULL)])
    found = await store.query(f"SELECT * FROM {table} ORDER BY execution_time_ms")
    columns = list(found.column_names)
    plain, full = [dict(zip(columns, row, strict=True)) for row in found.result_rows]
    assert {name: plain[name] for name in PLAIN | EMPTY} == PLAIN | EMPTY
    assert {name: full[name] for name in FULL} == FULL
    said = await store.query(f"SELECT {', '.join(columns)} FROM tool_metrics ORDER BY execution_time_ms")
    assert said.result_rows == found.result_rows
    left_out = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'tool_metrics'"
    assert {name for (name,) in (await store.query(left_out)).result_rows} - set(columns) == {"recorded_as"}
