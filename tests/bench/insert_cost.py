"""Processor time of one small insert into ``tool_metrics`` in the embedded engine, and what each view, projection and setting adds.

    python -m tests.bench.insert_cost [ROWS] [INSERTS] [VARIANT ...]

Each variant is a process with a new store: the tables as they are, without one view or projection, or with another setting. It inserts
small batches at an even pace. The figures include the merges of the parts that the inserts leave; the idle engine's time is taken off.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from tests.bench.sink import blocks, events
from tests.support.engine import copy_migrated

PACE_S: Final = 0.2
IDLE_S: Final = 4.0
WARM: Final = 10
VIEWS: Final = (
    "tool_errors_mv", "tool_slow_calls_mv", "tool_counts_1m_mv", "tool_latency_15m_mv", "tool_error_types_15m_mv",
    "tool_caller_errors_15m_mv", "emitter_clocks_mv",
)  # fmt: skip


TABLES: Final = ("tool_metrics", "tool_errors", "tool_slow_calls", "tool_counts_1m", "tool_latency_15m")


class Variant(NamedTuple):
    """What differs from the sink's own tables and settings."""

    before: Sequence[str] = ()
    settings: dict[str, float] = {}  # noqa: RUF012 - never changed


VARIANTS: Final = {
    "as it is": Variant(),
    **{f"without {view}": Variant([f"DROP VIEW {view}"]) for view in VIEWS},
    "without any view": Variant([f"DROP VIEW {view}" for view in VIEWS]),
    "without the projections of tool_counts_1m": Variant(
        ["ALTER TABLE tool_counts_1m DROP PROJECTION by_minute", "ALTER TABLE tool_counts_1m DROP PROJECTION per_hour"]
    ),
    "without the indexes of tool_metrics": Variant(
        [
            f"ALTER TABLE tool_metrics DROP INDEX {each}"
            for each in ("metric_id_bloom", "recorded_at_minmax", "execution_time_minmax")
        ]
    ),
    "one thread": Variant(settings={"max_threads": 1, "max_insert_threads": 1}),
    "views in parallel": Variant(settings={"parallel_view_processing": 1}),
    "without optimizations of plans": Variant(settings={"query_plan_enable_optimizations": 0}),
    "without profilers": Variant(
        settings={"query_profiler_real_time_period_ns": 0, "query_profiler_cpu_time_period_ns": 0}
    ),
    "never wide parts": Variant(
        [f"ALTER TABLE {each} MODIFY SETTING min_bytes_for_wide_part = 1000000000" for each in TABLES]
    ),
    "without tokens": Variant(
        settings={"insert_deduplicate": 0, "deduplicate_blocks_in_dependent_materialized_views": 0}
    ),
    "no merges": Variant(["SYSTEM STOP MERGES"]),
}


async def measure(store: Store, variant: Variant, rows: int, inserts: int) -> tuple[float, float, float]:
    """Return milliseconds of processor time and of waiting per insert, and the idle engine's milliseconds a second."""
    for statement in variant.before:
        await store.command(statement)
    ready = blocks(events(rows * (inserts + WARM)), rows, partition=1)

    async def insert(place: int) -> float:
        started = time.perf_counter()
        settings = INSERT_SETTINGS | {"insert_deduplication_token": str(place)} | variant.settings
        await store.raw_insert("tool_metrics", ready[place], settings=settings)
        return time.perf_counter() - started

    for place in range(WARM):
        await insert(place)
    await asyncio.sleep(2.0)
    idle = time.process_time()
    await asyncio.sleep(IDLE_S)
    idle = (time.process_time() - idle) / IDLE_S
    started, cpu, waited = time.perf_counter(), time.process_time(), 0.0
    for place in range(inserts):
        waited += await insert(WARM + place)
        await asyncio.sleep(max(0.0, started + (place + 1) * PACE_S - time.perf_counter()))
    await asyncio.sleep(1.0)  # the last merges
    cpu = time.process_time() - cpu - idle * (time.perf_counter() - started)
    return cpu / inserts * 1000, waited / inserts * 1000, idle * 1000


async def _open_and_measure(folder: Path, variant: Variant, rows: int, inserts: int) -> tuple[float, float, float]:
    async with await open_store(Settings(clickhouse_url=f"chdb:{folder}")) as store:
        return await measure(store, variant, rows, inserts)


def _in_a_process(folder: Path, name: str, rows: int, inserts: int) -> None:
    found = asyncio.run(_open_and_measure(folder, VARIANTS[name], rows, inserts))
    (folder / "found.json").write_text(json.dumps(found))


def main(rows: int = 20, inserts: int = 40, *names: str) -> None:
    """Print a line per variant."""
    print(f"{inserts} inserts of {rows} rows, one each {PACE_S:g} s")
    print(f"{'':<46}{'CPU ms an insert':>18}{'wall ms':>10}{'idle ms/s':>11}")
    for name in names or VARIANTS:
        with tempfile.TemporaryDirectory() as under:
            folder = Path(under) / "clickhouse"
            copy_migrated(folder)
            process = multiprocessing.get_context("spawn").Process(
                target=_in_a_process, args=(folder, name, rows, inserts)
            )
            process.start()
            process.join()
            cpu, wall, idle = json.loads((folder / "found.json").read_text())
            print(f"{name:<46}{cpu:>18.1f}{wall:>10.1f}{idle:>11.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
