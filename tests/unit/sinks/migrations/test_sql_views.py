"""The views for people, on rows that can be checked by hand."""

from __future__ import annotations

import json
from typing import Any

from switchgear_sinks.store import Store

HOUR = "2026-11-21 10:00:00"


async def put(store: Store, *rows: dict[str, Any], table: str = "tool_metrics") -> None:
    given = {"status": "success", "recorded_at": f"{HOUR}.5"} if table == "tool_metrics" else {}
    block = "\n".join(json.dumps(given | row) for row in rows)
    await store.raw_insert(table, block.encode(), settings={"insert_deduplicate": 0})


async def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in (await store.query(sql)).result_rows]


async def test_an_hour_of_a_tool_has_its_counts_and_percentiles(store: Store) -> None:
    await put(
        store, *({"tool_name": "a", "execution_time_ms": 100, "input_tokens": 3, "cost_usd": 0.25} for _ in range(98))
    )
    await put(store, {"tool_name": "a", "execution_time_ms": 5000, "status": "timeout", "input_tokens": 10})
    await put(store, {"tool_name": "a", "execution_time_ms": 6000, "status": "error"})
    await put(store, {"tool_name": "a", "status": "rejected"}, {"tool_name": "b", "status": "rejected"})
    found = await rows(
        store,
        "SELECT tool_name, toString(hour), calls, failures, rejections, failure_rate, avg_ms, p50_ms, p99_ms, max_ms, tokens, "
        "wasted_tokens, cost_usd FROM tool_stats_1h ORDER BY tool_name",
    )
    busy, idle = found
    assert busy[:7] == ("a", HOUR, 101, 2, 1, 0.02, 208.0)
    assert 100 <= busy[7] <= 109
    assert 5000 <= busy[8] <= 5453
    assert busy[9:] == (6000, 304, 10, 24.5)
    assert idle[2:7] == (1, 0, 1, None, None)


async def test_an_hour_counts_caller_errors_and_cancelled_calls_apart(store: Store) -> None:
    wrong = {"tool_name": "a", "status": "error", "error_class": "invalid_input", "execution_time_ms": 1}
    given_up = {"tool_name": "a", "status": "cancelled", "execution_time_ms": 60_000, "input_tokens": 9}
    await put(
        store,
        *[{"tool_name": "a", "execution_time_ms": 100}] * 3,
        {"tool_name": "a", "status": "error", "execution_time_ms": 300},
        *[wrong] * 5,
        *[given_up] * 2,
        {"tool_name": "only wrong", **{name: value for name, value in wrong.items() if name != "tool_name"}},
    )
    found = await rows(
        store,
        "SELECT calls, failures, caller_errors, cancellations, failure_rate, avg_ms, max_ms, wasted_tokens "
        "FROM tool_stats_1h ORDER BY tool_name",
    )
    assert found == [(11, 1, 5, 2, 0.25, 150.0, 300, 0), (1, 0, 1, 0, None, None, 0, 0)]
    assert await rows(store, "SELECT failures, wasted_tokens FROM waste_by_tool WHERE tool_name = 'a'") == [(6, 0)]


async def test_slow_executions_are_those_over_five_seconds(store: Store) -> None:
    await put(store, {"tool_name": "a", "execution_time_ms": 5000}, {"tool_name": "b", "execution_time_ms": 5001})
    assert await rows(store, "SELECT tool_name FROM slow_executions") == [("b",)]


async def test_error_patterns_are_the_same_whatever_ids_and_numbers_say(store: Store) -> None:
    messages = [
        "user 17 not found after 3.5 s (request 6f1c2a34-1111-4222-8333-444455556666, trace 4bf92f3577b34da6)",
        "user 9 not found after 12 s (request 00000000-aaaa-4bbb-8ccc-dddddddddddd, trace 00f067aa0ba902b7)",
        "connection refused",
    ]
    await put(
        store, *({"tool_name": "a", "status": "error", "error_type": "E", "error_message": each} for each in messages)
    )
    found = dict(await rows(store, "SELECT pattern, errors FROM error_patterns"))
    assert found == {"user <n> not found after <n> s (request <id>, trace <id>)": 2, "connection refused": 1}


async def test_circuit_history_shows_each_change_once(store: Store) -> None:
    opened = {
        "circuit_id": "a", "tool_name": "a", "state": "open", "previous_state": "closed", "version": 2, "generation": 1,
        "cause": json.dumps({"rule": "cusum", "value": 12.5, "threshold": 12.0}), "changed_at": HOUR,
        "counts": json.dumps({"calls": 8, "failed": 8}), "kafka_partition": 0, "kafka_offset": 1,
    }  # fmt: skip
    lease = opened | {"state": "half_open", "previous_state": "half_open", "version": 3, "kafka_offset": 2}
    again = opened | {"kafka_offset": 9}
    await put(store, opened, lease, again, table="circuit_transitions")
    found = await rows(
        store, "SELECT previous_state, state, rule, value, threshold, calls, failed, version FROM circuit_history"
    )
    assert found == [("closed", "open", "cusum", 12.5, 12.0, 8, 8, 2)]


async def test_duplicate_calls_are_the_same_call_in_the_same_session(store: Store) -> None:
    call = {"tool_name": "a", "session_id": "s", "parameters_hash": "h", "execution_time_ms": 10, "input_tokens": 5}
    await put(
        store, call, call | {"status": "error"}, call | {"session_id": "t"}, call | {"parameters_hash": "i"},
        call | {"status": "rejected"},
    )  # fmt: skip
    found = await rows(store, "SELECT session_id, tool_name, calls, failures, total_ms, tokens FROM duplicate_calls")
    assert found == [("s", "a", 2, 1, 20.0, 10)]


async def test_waste_is_what_failed_calls_cost(store: Store) -> None:
    await put(
        store,
        {"tool_name": "a", "execution_time_ms": 1500, "status": "timeout", "output_tokens": 7, "cost_usd": 0.5},
        {"tool_name": "a", "execution_time_ms": 100, "output_tokens": 1, "cost_usd": 0.1},
    )
    found = await rows(
        store, "SELECT tool_name, calls, failures, wasted_seconds, wasted_tokens, wasted_usd FROM waste_by_tool"
    )
    assert found == [("a", 2, 1, 1.5, 7, 0.5)]
