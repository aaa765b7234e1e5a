"""How long each repository method, report and view takes over millions of calls, and what the primary key leaves to read.

    python -m tests.bench.queries [--rows 10000000] [--rounds 15] [--folder DIR]

Calls are spread over 24 hours and 200 tools, made inside ClickHouse and inserted through the real tables and views. Every query
runs once to warm the caches; medians and 95th percentiles are of the rounds after. ``--folder`` keeps the data, and loads nothing
where it has some. The plan names the table, or the projection (``per_hour`` …) that ClickHouse reads in its place, the columns of the
key that it uses, and what it leaves to read. The median CPU time of the process beside it distinguishes a slow query from a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from switchgear_schemas.settings import load_settings
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.migrations import migrate
from switchgear_sinks.repository import CircuitsRepository, ToolErrorsRepository, ToolMetricsRepository
from switchgear_sinks.repository.local_circuits import WITHIN
from switchgear_sinks.store import Store, open_store
from tests.bench.queries_load import load, settled, sizes
from tests.bench.queries_plan import Reading, Recording, readings

TOOL = "mcp:server-7:tool-7"
Case = tuple[str, float | None, Callable[[], Awaitable[object]]]


def cases(client: Recording) -> list[Case]:
    """Name, limit in milliseconds where there is one, and the call."""
    repository, service = ToolMetricsRepository(client), ToolHealthService(client)
    tenant = ToolMetricsRepository(client, tenant="acme")
    errors, circuits = ToolErrorsRepository(client), CircuitsRepository(client)
    now = datetime.now(UTC)
    hour, day = now - timedelta(hours=1), (now - timedelta(hours=24)).replace(second=0, microsecond=0)

    def sql(text: str) -> Callable[[], Awaitable[object]]:
        return lambda: client.query(text)

    return [
        ("get_tool_stats, one tool's hour", 20, lambda: repository.get_tool_stats(TOOL, hour)),
        ("get_tool_stats, one tool's 24 h", None, lambda: repository.get_tool_stats(TOOL, day)),
        ("get_all_tool_stats, 24 h", 100, lambda: repository.get_all_tool_stats(day)),
        ("get_all_tool_stats, last hour", 100, lambda: repository.get_all_tool_stats(hour.replace(second=0, microsecond=0))),
        ("get_all_tool_names", None, repository.get_all_tool_names),
        ("get_known_tool_names", 50, repository.get_known_tool_names),
        ("get_recent_errors, all tools", 50, repository.get_recent_errors),
        ("get_recent_errors, one tool", 50, lambda: repository.get_recent_errors(TOOL)),
        ("get_recent_executions", 50, lambda: repository.get_recent_executions(TOOL)),
        ("get_slow_executions, all tools", 50, repository.get_slow_executions),
        ("get_slow_executions, last hour", 50, lambda: repository.get_slow_executions(since=hour)),
        ("get_slow_executions, one tool", 50, lambda: repository.get_slow_executions(tool_name=TOOL)),
        ("get_slow_executions, above 100 ms", 50, lambda: repository.get_slow_executions(100)),
        ("get_slow_executions, one tenant", 50, tenant.get_slow_executions),
        ("get_last_calls", 50, lambda: repository.get_last_calls(TOOL)),
        ("errors by type, all tools, 24 h", 50, lambda: errors.types(None, day)),
        ("errors by message, one tool, 1 h", 50, lambda: errors.templates(TOOL, since=hour)),
        ("circuits now", 50, lambda: circuits.current(day)),
        ("circuits that processes opened", None, lambda: circuits.local(now - WITHIN)),
        ("history of one circuit", 50, lambda: circuits.history(TOOL)),
        ("check_tool_health, 1 h", 50, lambda: service.check_tool_health(TOOL)),
        ("check_all_tools_health, 24 h", 100, lambda: service.check_all_tools_health(24)),
        ("should_circuit_break", 20, lambda: service.should_circuit_break(TOOL)),
        ("get_error_patterns", None, lambda: service.get_error_patterns(TOOL)),
        ("get_dashboard_summary", 100, service.get_dashboard_summary),
        ("get_health_summary", 100, service.get_health_summary),
        ("get_tool_health", 100, lambda: service.get_tool_health(TOOL)),
        ("view tool_stats_1h, one tool", None, sql(f"SELECT * FROM tool_stats_1h WHERE tool_name = '{TOOL}'")),
        ("view slow_executions, slowest 20", None, sql("SELECT * FROM slow_executions ORDER BY execution_time_ms DESC LIMIT 20")),
        ("view error_patterns, one tool", None, sql(f"SELECT * FROM error_patterns WHERE tool_name = '{TOOL}'")),
        ("view circuit_history", None, sql("SELECT * FROM circuit_history")),
        ("view duplicate_calls, one tool", None, sql(f"SELECT * FROM duplicate_calls WHERE tool_name = '{TOOL}' ORDER BY calls DESC LIMIT 20")),
        ("view waste_by_tool, one tool", None, sql(f"SELECT * FROM waste_by_tool WHERE tool_name = '{TOOL}'")),
    ]  # fmt: skip


async def measure(store: Store, rounds: int) -> list[str]:
    """A line a case; those that miss their limit say so."""
    client = Recording(store)
    lines = []
    for name, limit, call in cases(client):
        client.seen.clear()
        await call()
        plans = [each for sql, parameters in _once(client.seen) for each in await readings(store, sql, parameters)]
        taken, cpu = [], []
        for _ in range(rounds):
            started, worked = time.perf_counter(), time.process_time()
            await call()
            taken.append((time.perf_counter() - started) * 1000)
            cpu.append((time.process_time() - worked) * 1000)
        median, p95 = statistics.median(taken), sorted(taken)[max(0, round(0.95 * len(taken)) - 1)]
        verdict = "" if limit is None else f"{limit:>5.0f} {'ok' if median <= limit else 'MISSED'}"
        lines.append(
            f"{name:<38}{median:>9.1f}{p95:>9.1f}{statistics.median(cpu):>9.1f}  {verdict:<12} {_shown(plans)}"
        )
    return lines


def _once(seen: list[tuple[str, dict[str, object]]]) -> list[tuple[str, dict[str, object]]]:
    """Each SELECT once."""
    return list({sql: (sql, parameters) for sql, parameters in seen if "EXISTS" not in sql}.values())


def _shown(plans: list[Reading]) -> str:
    return "; ".join(map(str, plans)) or "-"


async def main(rows: int, rounds: int, folder: Path) -> None:
    """Load, measure, print."""
    async with await open_store(load_settings(clickhouse_url=f"chdb:{folder}")) as store:
        await migrate(store)
        stored = int((await store.query("SELECT count() FROM tool_metrics")).result_rows[0][0])
        if not stored:
            seconds = await load(store, rows)
            print(f"{rows:,} calls loaded in {seconds:.0f} s ({rows / seconds:,.0f} rows/s through all views)")
        await settled(store)
        for table, count, parts, mebibytes in await sizes(store):
            print(f"  {table:<22}{count:>13,} rows {parts:>4} parts {mebibytes:>10,.1f} MiB")
        print(f"{'':<38}{'median ms':>9}{'p95 ms':>9}{'CPU ms':>9}  {'limit':<12} granules read")
        print(*await measure(store, rounds), sep="\n")


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rows", type=int, default=10_000_000)
    given.add_argument("--rounds", type=int, default=15)
    given.add_argument("--folder", type=Path)
    options = given.parse_args()
    with tempfile.TemporaryDirectory() if options.folder is None else nullcontext(options.folder) as where:
        asyncio.run(main(options.rows, options.rounds, Path(where)))
