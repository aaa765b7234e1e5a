"""The real ClickHouse engine with the real tables, for tests of their readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from switchgear_schemas import ToolExecution
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store
from tests.support.kafka import copy_of_the_runs, in_a_run

TABLES = (
    "tool_metrics", "tool_errors", "tool_slow_calls", "tool_error_types_15m", "tool_caller_errors_15m",
    "tool_counts_1m", "tool_latency_15m", "circuit_transitions", "operator_actions", "emitter_clocks",
    "sink_history",
)  # fmt: skip
_INSERT = {"date_time_input_format": "best_effort", "insert_deduplicate": 0}


@contextmanager
def migrated_store(folder: Path) -> Iterator[Store]:
    """Open a store in ``folder`` with its tables. A process can have one at a time."""
    copy_migrated(folder)
    store = asyncio.run(open_store(Settings(clickhouse_url=f"chdb:{folder}")))
    try:
        yield store
    finally:
        asyncio.run(store.close())


def copy_migrated(folder: Path) -> None:
    """Copy the engine's files with all tables, empty, to ``folder``. They are made once a run: that takes longer than most tests.

    A program that is no part of a run makes them for itself.
    """
    if not in_a_run():
        _make_in_a_thread(folder)
        return
    copy_of_the_runs("clickhouse", _make_in_a_thread, folder)


def _make_in_a_thread(folder: Path) -> None:
    """Make the files. The fixture of an asynchronous test is made while a loop runs in this thread."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _make(folder)).result()


async def _make(folder: Path) -> None:
    async with await open_store(Settings(clickhouse_url=f"chdb:{folder}")) as store:
        await migrate(store)


def emptied(store: Store) -> Store:
    """Return the store with empty tables."""

    async def empty() -> None:
        for table in TABLES:
            await store.command(f"TRUNCATE TABLE {table}")

    asyncio.run(empty())
    return store


async def store_calls(store: Store, calls: Iterable[Mapping[str, Any]]) -> None:
    """Insert executions as the sink does: as JSON lines. ClickHouse fills in missing values."""
    lines = [json.dumps({"kafka_offset": place} | dict(call), default=_text) for place, call in enumerate(calls)]
    if lines:
        await store.raw_insert("tool_metrics", "\n".join(lines).encode(), "JSONEachRow", _INSERT)


async def store_circuits(
    store: Store, circuits: Iterable[Circuit], arrived: Mapping[int, datetime] | None = None
) -> None:
    """Insert circuit records as the sink does: nested values as JSON text, missing text as empty text.

    ``arrived`` is when the broker had a record, by its place. Without it that is now.
    """
    lines = []
    for place, circuit in enumerate(circuits):
        row = circuit.to_dict()
        for name in ("cause", "leases", "counts", "fallback"):
            row[name] = "" if row[name] is None else json.dumps(row[name])
        for name in ("previous_state", "last_error"):
            row[name] = row[name] or ""
        if arrived is not None:
            row["kafka_timestamp"] = arrived[place].isoformat()
        lines.append(json.dumps(row | {"kafka_partition": 0, "kafka_offset": place}))
    if lines:
        await store.raw_insert("circuit_transitions", "\n".join(lines).encode(), "JSONEachRow", _INSERT)


def call(
    tool_name: str = "search", status: str = "success", at: datetime | None = None, **fields: Any
) -> dict[str, Any]:
    """Return an execution as JSON-ready values, with its own id. Its time is ``at``, or now."""
    execution = ToolExecution(
        tool_name=tool_name, status=status, recorded_at=at or datetime.now(UTC), **({"user_id": "u"} | fields)
    )
    return {name: value for name, value in execution.to_dict().items() if value is not None}


def _text(value: object) -> str:
    return str(value)
