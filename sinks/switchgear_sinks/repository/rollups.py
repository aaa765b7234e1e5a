"""Build SQL for all tools over a long period, from the rollups: exact counts at the cost of a few thousand rows.

Whole hours come from the hourly sums that ClickHouse keeps with the counts per minute (projection ``per_hour``). The rest of a
period comes from the minutes, and parts of a minute from the raw rows. So a period is counted to the microsecond.
"""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from switchgear_sinks.repository.queries import (
    CALLER_ERROR,
    CALLS,
    CANCELLED,
    JUDGED,
    NOT_CANCELLED,
    SUCCEEDED,
    microseconds,
)

LONG: Final = timedelta(hours=2)
"""In a longer period, the raw rows of the minutes at its ends are few."""
_MINUTE: Final = 60_000_000
_HOUR: Final = 3_600_000_000

_ROLLED: Final = """
    toUInt64(sum(calls) - sum(rejections)) AS made, sum(successes) AS success, sum(errors) AS error, sum(timeouts) AS timeout,
    sum(rejections) AS rejected, sum(caller_errors) AS caller, sum(cancellations) AS cancelled,
    sum(cancelled_us_sum) AS cancelled_us, sum(duration_us_sum) AS us, min(duration_ms_min) AS shortest,
    max(duration_ms_max) AS longest, sum(input_size_sum) AS inputs, sum(output_size_sum) AS outputs,
    sum(cost_nanousd_sum) AS cost
"""
_US: Final = "toUInt64(round(least(execution_time_ms, 1e9) * 1000))"
_RAW: Final = f"""
    countIf({CALLS}) AS made, countIf({SUCCEEDED}) AS success, countIf(status = 'error' AND {NOT_CANCELLED}) AS error,
    countIf(status = 'timeout' AND {NOT_CANCELLED}) AS timeout, countIf(status = 'rejected') AS rejected,
    countIf({CALLER_ERROR}) AS caller, countIf({CANCELLED}) AS cancelled, sumIf({_US}, {CANCELLED}) AS cancelled_us,
    sumIf({_US}, {JUDGED}) AS us,
    min(if({JUDGED}, execution_time_ms, inf)) AS shortest, max(if({JUDGED}, execution_time_ms, 0.)) AS longest,
    sum(input_size) AS inputs, sum(output_size) AS outputs, sum(toUInt64(round(least(cost_usd, 1e6) * 1e9))) AS cost
"""
_PERCENTILES: Final = (0.5, 0.95, 0.99)
# The logarithmic middle of the first bucket whose cumulated count reaches the rank.
_PERCENTILE: Final = """exp2((arrayFirst((bucket, cumulated) -> cumulated >= {quantile} * arraySum(sizes),
    ids, arrayCumSum(sizes)) + 0.5) / 8)"""


def serve(since: datetime, until: datetime) -> bool:
    """Return whether the rollups are the better source, because no raw rows are needed, or few."""
    return all(moment % _MINUTE == 0 for moment in _bounds(since, until)) or until - since >= LONG


def counts(where: str, since: datetime, until: datetime) -> tuple[str, dict[str, Any]]:
    """Return the SQL of every tool's counts, sums, shortest and longest call, and its parameters.

    Args:
        where: A WHERE clause on ``tenant`` and ``tool_name``, or an empty text.
        since: Start of the period, included.
        until: End of the period, included.
    """
    start, end = _bounds(since, until)
    first, last = _inner(start, end, _MINUTE)
    condition = f"{where} AND" if where else "WHERE"
    sources, times = _whole_minutes(condition, first, last)
    if (start, end) != (first, last):
        edges = f"""SELECT tool_name, {_RAW} FROM tool_metrics {condition}
            ((recorded_at >= {_moment("start")} AND recorded_at < {_moment("from")})
            OR (recorded_at >= {_moment("to")} AND recorded_at < {_moment("end")})) GROUP BY tool_name"""
        sources.append(edges)
        times |= {"start": start, "from": first, "to": last, "end": end}
    sql = f"""
        SELECT tool_name, sum(made) AS total_calls, sum(success) AS success_count, sum(error) AS error_count,
            sum(timeout) AS timeout_count, sum(rejected) AS rejected_count, sum(caller) AS caller_error_count,
            sum(cancelled) AS cancelled_count, if(cancelled_count = 0, 0, sum(cancelled_us) / 1000 / cancelled_count) AS avg_cancelled_ms,
            success_count + error_count + timeout_count - caller_error_count AS judged,
            if(judged = 0, 0, sum(us) / 1000 / judged) AS avg_time_ms,
            if(judged = 0, 0, min(shortest)) AS min_time_ms, max(longest) AS max_time_ms,
            sum(inputs) AS total_input_bytes, sum(outputs) AS total_output_bytes, sum(cost) / 1e9 AS total_cost_usd
        FROM ({" UNION ALL ".join(sources)}) GROUP BY tool_name ORDER BY tool_name
    """
    return sql, times


def latencies(where: str, since: datetime, until: datetime) -> tuple[str, dict[str, Any]]:
    """Return the SQL of every tool's ``percentiles`` over the quarters of an hour that the period touches, and its parameters."""
    first, last = _inner(*_bounds(since, until), _MINUTE)
    percentiles = ", ".join(_PERCENTILE.replace("{quantile}", str(each)) for each in _PERCENTILES)
    sql = f"""
        SELECT tool_name, mapSort(sumMap(buckets)) AS merged, mapKeys(merged) AS ids, mapValues(merged) AS sizes,
            [{percentiles}] AS percentiles
        FROM tool_latency_15m {f"{where} AND" if where else "WHERE"}
            period >= toStartOfFifteenMinutes(toDateTime({{first:UInt32}}, 'UTC')) AND period < toDateTime({{last:UInt32}}, 'UTC')
        GROUP BY tool_name
    """
    return f"SELECT tool_name, percentiles FROM ({sql})", {"first": first // 1_000_000, "last": last // 1_000_000}


def _bounds(since: datetime, until: datetime) -> tuple[int, int]:
    """Return the period in microseconds. Its end is no part of it."""
    return microseconds(since), microseconds(until) + 1


def _whole_minutes(condition: str, first: int, last: int) -> tuple[list[str], dict[str, Any]]:
    """Return the SELECTs over whole minutes. Whole hours are read by the hour, the others by the minute."""
    times: dict[str, Any] = {"first": first // 1_000_000, "last": last // 1_000_000}
    within = "minute >= toDateTime({first:UInt32}, 'UTC') AND minute < toDateTime({last:UInt32}, 'UTC')"
    from_hour, to_hour = _inner(first, last, _HOUR)
    if from_hour >= to_hour:
        return [_rolled(condition, within)], times
    times |= {"from_hour": from_hour // 1_000_000, "to_hour": to_hour // 1_000_000}
    lower, upper = "toDateTime({from_hour:UInt32}, 'UTC')", "toDateTime({to_hour:UInt32}, 'UTC')"
    # The projection is grouped by toStartOfHour(minute). With a condition on minute itself, ClickHouse would not use it.
    hours = _rolled(condition, f"toStartOfHour(minute) >= {lower} AND toStartOfHour(minute) < {upper}")
    if (first, last) == (from_hour, to_hour):
        return [hours], times
    return [hours, _rolled(condition, f"{within} AND (minute < {lower} OR minute >= {upper})")], times


def _rolled(condition: str, times: str) -> str:
    return f"SELECT tool_name, {_ROLLED} FROM tool_counts_1m {condition} {times} GROUP BY tool_name"


def _inner(start: int, end: int, unit: int) -> tuple[int, int]:
    """Return the first and last limit of the whole units in between."""
    return -(-start // unit) * unit, end // unit * unit


def _moment(name: str) -> str:
    return f"fromUnixTimestamp64Micro({{{name}:Int64}}, 'UTC')"
