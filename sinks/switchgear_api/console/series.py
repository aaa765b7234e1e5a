"""Counts and latencies over time, in steps of whole minutes."""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from switchgear_api.console.figures import REFUSED
from switchgear_api.console.page_shapes import FleetSeries, Series
from switchgear_api.console.records import iso
from switchgear_sinks.repository.queries import (
    CALLER_ERROR,
    CALLS,
    FAILED,
    JUDGED,
    NOT_CANCELLED,
    Conditions,
    microseconds,
    select,
)
from switchgear_sinks.store import Database

POINTS: Final = 240
"""Most points of a series, about."""
RAW_HOURS: Final = 24.0
"""A longer series of one tool comes from the rollups."""
_QUARTER_S: Final = 900
_COUNTS: Final = ("calls", "judged", "errors", "timeouts", "refused")
_ROLLED: Final = """sum(calls) - sum(rejections) AS made, sum(errors) + sum(timeouts) - sum(caller_errors) AS failed,
    sum(successes) + failed AS judged"""
_TIMES: Final = ("p50_ms", "p95_ms", "p99_ms")


def step_of(hours: float) -> int:
    """Return the seconds of a step: whole minutes, or whole quarters of an hour where the rollups are read."""
    unit = 60 if hours <= RAW_HOURS else _QUARTER_S
    return max(unit, -(-int(hours * 3600) // (POINTS * unit)) * unit)


def period_of(now: datetime, hours: float) -> tuple[datetime, int, int]:
    """Return the start, the seconds of a step, and the number of steps, of which the last is under way."""
    step = step_of(hours)
    end = int(now.timestamp()) // step * step + step
    count = max(1, -(-int(hours * 3600) // step))
    return datetime.fromtimestamp(end - count * step, UTC), step, count


async def tool_series(db: Database, tool: str, tenant: str | None, now: datetime, hours: float) -> Series:
    """Return the series of one tool."""
    since, step, count = period_of(now, hours)
    place = "intDiv(toUnixTimestamp(toDateTime({column}, 'UTC')) - {{start:Int64}}, {{step:Int64}}) AS place"
    given = {"start": int(since.timestamp()), "step": step, "since": microseconds(since)}
    recorded = "recorded_at >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')"
    raw = Conditions(tenant).equal("tool_name", tool).that(recorded)
    if hours <= RAW_HOURS:
        columns = f"""{place.format(column="recorded_at")}, countIf({CALLS}) AS calls,
            countIf({JUDGED}) AS judged,
            countIf({FAILED}) - countIf({CALLER_ERROR}) AS errors, countIf(status = 'timeout' AND {NOT_CANCELLED}) AS timeouts,
            sumIf({REFUSED}, status = 'rejected') AS refused,
            quantilesTDigestIf(0.5, 0.95, 0.99)(execution_time_ms, {JUDGED}) AS times"""
        rows = await db.rows(select(columns, "tool_metrics", raw, "GROUP BY place"), raw.parameters | given)
        return series(rows, since, step, count)
    minutes = Conditions(tenant).equal("tool_name", tool).that("minute >= toDateTime({start:UInt32}, 'UTC')")
    counted = f"{place.format(column='minute')}, {_ROLLED}, sum(timeouts) AS late"
    rejected = Conditions(tenant).equal("tool_name", tool).that(recorded, "status = 'rejected'")
    periods = Conditions(tenant).equal("tool_name", tool).that("period >= toDateTime({start:UInt32}, 'UTC')")
    percentile = "exp2((arrayFirst((b, n) -> n >= {q} * arraySum(mapValues(m)), mapKeys(m), arrayCumSum(mapValues(m))) + 0.5) / 8)"
    listed = ", ".join(percentile.replace("{q}", str(each)) for each in (0.5, 0.95, 0.99))
    latencies = select(
        f"{place.format(column='period')}, mapSort(sumMap(buckets)) AS m", "tool_latency_15m", periods, "GROUP BY place"
    )
    counts, refusals, times = await asyncio.gather(
        db.rows(select(counted, "tool_counts_1m", minutes, "GROUP BY place"), minutes.parameters | given),
        db.rows(
            select(
                f"{place.format(column='recorded_at')}, sum({REFUSED}) AS refused",
                "tool_metrics",
                rejected,
                "GROUP BY place",
            ),
            rejected.parameters | given,
        ),
        db.rows(f"SELECT place, [{listed}] AS times FROM ({latencies})", periods.parameters | given),
    )
    renamed = [_counted(row) | {"timeouts": row["late"]} for row in counts]
    return series([*renamed, *refusals, *times], since, step, count)


async def fleet_series(db: Database, tenant: str | None, now: datetime, hours: float) -> FleetSeries:
    """Return the calls and errors of all tools together."""
    since, step, count = period_of(now, hours)
    where = Conditions(tenant).that("minute >= toDateTime({start:UInt32}, 'UTC')")
    columns = f"intDiv(toUnixTimestamp(minute) - {{start:Int64}}, {{step:Int64}}) AS place, {_ROLLED}"
    rows = await db.rows(
        select(columns, "tool_counts_1m", where, "GROUP BY place"),
        where.parameters | {"start": int(since.timestamp()), "step": step},
    )
    found = series(map(_counted, rows), since, step, count)
    return cast("FleetSeries", {name: value for name, value in found.items() if name in FleetSeries.__annotations__})


def _counted(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"place": row["place"], "calls": row["made"], "judged": row["judged"], "errors": row["failed"]}


def series(rows: Iterable[Mapping[str, Any]], since: datetime, step: int, count: int) -> Series:
    """Return lists with one value a step. Counts are 0 in a step without rows; times are null."""
    counts = {name: [0] * count for name in _COUNTS}
    times: dict[str, list[float | None]] = {name: [None] * count for name in _TIMES}
    for row in rows:
        place = row["place"]
        if not 0 <= place < count:
            continue
        for name in _COUNTS:
            if name in row:
                counts[name][place] = row[name]
        for name, value in zip(_TIMES, row.get("times") or (), strict=False):
            times[name][place] = value if value == value else None  # noqa: PLR0124 - NaN of a step without judged calls
    at = [iso(since + timedelta(seconds=step * each)) for each in range(count)]
    return cast("Series", {"step_s": step, "at": at, **counts, **times})
