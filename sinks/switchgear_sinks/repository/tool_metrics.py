"""Read and write stored calls: the repository of the reference documents."""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Final, Protocol

import msgspec

from switchgear_schemas.enums import MOST_BYTES, MOST_MS, MOST_TOKENS, MOST_USD
from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.migrations import migrate
from switchgear_sinks.repository import rollups
from switchgear_sinks.repository.queries import (
    CALLS,
    NOT_CANCELLED,
    STATS,
    TOOLS_OWN,
    Conditions,
    checked_limit,
    microseconds,
    select,
    window_end,
)
from switchgear_sinks.store import Database

COLUMNS: Final = tuple(ToolMetric.model_fields)
"""A row has every field of a ToolMetric, under the same name."""
SLOW_MS: Final = 5000.0
"""``tool_slow_calls`` has the calls that took longer: the degraded latency of the reference documents."""
_EMPTY_MEANS_NONE: Final = frozenset(
    name for name, field in ToolMetric.model_fields.items() if field.default is None and not field.is_required()
)
_MOST: Final[dict[str, float]] = {
    "execution_time_ms": MOST_MS,
    "input_size": MOST_BYTES,
    "output_size": MOST_BYTES,
    "input_tokens": MOST_TOKENS,
    "output_tokens": MOST_TOKENS,
    "cache_creation_tokens": MOST_TOKENS,
    "cost_usd": MOST_USD,
}
"""Rows of releases without these bounds may have more, and are cut."""
_SLOWEST: Final = "ORDER BY execution_time_ms DESC, recorded_at DESC, metric_id LIMIT {limit:UInt32}"


class Logger(Protocol):
    """The part of a logger that is used. Those of logging and structlog both fit."""

    def info(self, msg: str, *args: Any) -> Any:
        """Log at the level info."""


class ToolMetricsRepository:
    """Reads and writes ``tool_metrics``.

    A row with ``status = 'rejected'`` is a call that a circuit refused, so it was never made. Totals, rates and times leave it
    out; statistics count it as ``rejected_count``.

    Rates and times cover successes, and errors and timeouts whose class counts by default or is missing. Caller errors (classes
    ``tool``, ``invalid_input``, ``auth``, ``policy``) and cancelled calls are part of ``total_calls`` and have their own counts.
    A success that its caller ignores (class ``policy``) is part of ``total_calls`` only.

    A period without an end lasts until now. Calls that are dated more than two minutes later are in none.

    The methods raise clickhouse-connect's errors, and TimeoutError after a minute.

    Args:
        db: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a Store, with the database selected.
        logger: Logs deletions; by default ``switchgear.repository``.
        tenant: Only this tenant's rows. None means all rows.
    """

    def __init__(self, db: Any, logger: Logger | None = None, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._logger: Logger = logger or logging.getLogger("switchgear.repository")
        self._tenant = tenant

    @property
    def database(self) -> Database:
        """The connection, for other reads of the same database."""
        return self._db

    @property
    def tenant(self) -> str | None:
        """The tenant whose rows are read; None means all."""
        return self._tenant

    async def ensure_table(self) -> None:
        """Create the tables, unless they exist.

        They are the tables that a sink creates, on the node that ``db`` is connected to. Rows are kept for 30 days. For a
        cluster or another retention, run ``switchgear migrate`` instead.

        Raises:
            MigrationError: ClickHouse refuses to create them; the message has the reason.
        """
        found = await self._db.rows("EXISTS TABLE tool_metrics")
        if not found[0]["result"]:
            await migrate(self._db)

    async def record(self, metric: ToolMetric) -> ToolMetric:
        """Store one call now, without Kafka, and return it.

        For many calls, emit them instead: each insert makes ClickHouse write a part. A ``metric_id`` that is recorded twice
        is stored twice.
        """
        await self._db.insert_json("tool_metrics", to_json_line(metric))
        return metric

    async def get_tool_stats(
        self, tool_name: str, since: datetime | None = None, until: datetime | None = None
    ) -> dict[str, Any]:
        """Return the statistics of one tool over a period, both ends included. A tool without calls has zeros.

        Returns:
            The keys of the reference documents, and ``rejected_count``, ``caller_error_count`` (part of ``error_count`` and
            ``timeout_count``), ``cancelled_count``, ``avg_cancelled_ms``, ``total_cost_usd``, ``p50_time_ms``,
            ``p95_time_ms`` and ``p99_time_ms`` (by t-digest).
        """
        where = self._where().equal("tool_name", tool_name).recorded(since, _end(until))
        rows = await self._db.rows(select(STATS, "tool_metrics", where), where.parameters)
        return _stats(tool_name, rows[0], since, until)

    async def get_all_tool_stats(
        self, since: datetime | None = None, until: datetime | None = None, *, tool_name: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return :meth:`get_tool_stats` of every tool with rows in the period, or of ``tool_name``.

        Two kinds of period are read from the rollups: one of whole minutes, such as from a whole minute until now, and one of two hours
        or more. Their counts and sums are exact. Their percentiles come from histograms per quarter of an hour and are off
        by at most 9 %. Rows that :meth:`cleanup_old_metrics` removed still count there.
        """
        where, end = self._where().equal("tool_name", tool_name), _end(until)
        if since is None or not rollups.serve(since, end):
            where.recorded(since, end)
            sql = select(f"tool_name, {STATS}", "tool_metrics", where, "GROUP BY tool_name ORDER BY tool_name")
            rows = await self._db.rows(sql, where.parameters)
        else:
            statements = (build(str(where), since, end) for build in (rollups.counts, rollups.latencies))
            rows, latencies = await asyncio.gather(
                *(self._db.rows(sql, where.parameters | times) for sql, times in statements)
            )
            percentiles = {row["tool_name"]: row["percentiles"] for row in latencies}
            rows = [row | {"percentiles": percentiles.get(row["tool_name"])} for row in rows]
        return {row["tool_name"]: _stats(row["tool_name"], row, since, until) for row in rows}

    async def get_recent_errors(self, tool_name: str | None = None, limit: int = 10) -> list[ToolMetric]:
        """Return errors and timeouts, including caller errors, newest first. Without ``tool_name``, of all tools."""
        return await self._newest("tool_errors", "errors + timeouts", tool_name, limit, NOT_CANCELLED)

    async def get_newest_arrival(self) -> datetime | None:
        """Return when the newest stored event came to the broker, to the second. None: nothing is stored.

        Rows wait for others a few seconds before they are stored, so everything newer than this is still on its way.
        """
        where = self._where()
        rows = await self._db.rows(
            select("max(arrived_at) AS at, count() AS n", "tool_counts_1m", where), where.parameters
        )
        at: datetime = rows[0]["at"]
        return at if rows[0]["n"] else None

    async def get_all_tool_names(self) -> list[str]:
        """Return the names of all tools that have rows, sorted."""
        where = self._where()
        rows = await self._db.rows(
            select("DISTINCT tool_name", "tool_metrics", where, "ORDER BY tool_name"), where.parameters
        )
        return [row["tool_name"] for row in rows]

    async def get_known_tool_names(self) -> list[str]:
        """Return the names of all tools that were ever called, sorted, including those whose rows were removed.

        It reads the counts per hour, so its time depends on the number of tools and hours, not of calls.
        """
        where = self._where()
        rows = await self._db.rows(
            select("tool_name", "tool_counts_1m", where, "GROUP BY tool_name ORDER BY tool_name"), where.parameters
        )
        return [row["tool_name"] for row in rows]

    async def get_slow_executions(
        self,
        threshold_ms: float = 5000,
        limit: int = 20,
        *,
        since: datetime | None = None,
        tool_name: str | None = None,
    ) -> list[ToolMetric]:
        """Return calls that took longer than ``threshold_ms``, slowest first.

        Calls above five seconds have their own table, so that the answer is fast however much is stored. With a lower
        threshold, and fewer than ``limit`` calls above five seconds, all rows are read.
        """
        given = {"limit": checked_limit(limit)}
        for statement, least in ((_select_known_slow, SLOW_MS), (_select_all_slow, 0.0)):
            where = self._where().equal("tool_name", tool_name).recorded(since, _end(None))
            sql, parameters = statement(where, threshold_ms)
            rows = await self._db.rows(sql, parameters | given)
            if len(rows) >= limit or threshold_ms >= least:
                break
        return [to_metric(row) for row in rows]

    async def get_recent_executions(self, tool_name: str, limit: int = 100) -> list[ToolMetric]:
        """Return calls of a tool, newest first, including rejected ones."""
        return await self._newest("tool_metrics", "calls", tool_name, limit)

    async def get_last_calls(self, tool_name: str) -> dict[str, Any]:
        """Return when a tool last succeeded and last failed, and its last error. Caller errors are not failures of the tool.

        Returns:
            ``stored`` (rows of ``tool_metrics``, including rejected calls), ``last_success`` and ``last_failure`` (from the
            counts per minute, which outlive the rows), ``last_error`` (message, else type, else status, of the newest row
            in ``tool_errors``).
        """
        where = self._where().equal("tool_name", tool_name)
        end = _end(None)
        # With a condition on minute itself, ClickHouse would not use the sums per hour.
        until = "toStartOfHour(minute) <= toDateTime({last:UInt32}, 'UTC')"
        counts = self._where().equal("tool_name", tool_name).that(until, last=microseconds(end) // 1_000_000)
        times = """max(last_success_at) AS succeeded, sum(successes) AS successes,
            max(last_failure_at) AS failed, sum(errors) + sum(timeouts) - sum(caller_errors) AS failures"""
        stored, counted = await asyncio.gather(
            self._db.rows(select("count() AS n", "tool_metrics", where), where.parameters),
            self._db.rows(select(times, "tool_counts_1m", counts), counts.parameters),
        )
        row = counted[0]
        if not row["failures"]:
            newest = []
        else:
            where.recorded(row["failed"], end).that(NOT_CANCELLED, TOOLS_OWN)
            sql = select("error_message, error_type, status", "tool_errors", where, "ORDER BY recorded_at DESC LIMIT 1")
            newest = await self._db.rows(sql, where.parameters)
        return {
            "stored": stored[0]["n"],
            "last_success": row["succeeded"] if row["successes"] else None,
            "last_failure": row["failed"] if row["failures"] else None,
            "last_error": next((each for error in newest for each in error.values() if each), None),
        }

    async def cleanup_old_metrics(self, older_than_days: int = 30) -> int:
        """Delete the rows that were recorded before that, wait until they are gone, and return how many they were.

        Counts per minute and histograms stay: they are small, and history reads them.

        Raises:
            ValueError: ``older_than_days`` is negative.
        """
        if older_than_days < 0:
            raise ValueError(f"older_than_days must not be negative, got {older_than_days}")
        before = datetime.now(UTC) - timedelta(days=older_than_days)
        where = self._where().recorded(None, before)
        found = int((await self._db.rows(select("count() AS n", "tool_metrics", where), where.parameters))[0]["n"])
        for table in ("tool_metrics", "tool_errors", "tool_slow_calls") if found else ():
            await self._db.command(f"ALTER TABLE {table} DELETE {where} SETTINGS mutations_sync = 2", where.parameters)
        self._logger.info("Removed %d rows older than %d days from tool_metrics", found, older_than_days)
        return found

    def _where(self) -> Conditions:
        return Conditions(self._tenant)

    async def _newest(
        self, table: str, counted: str, tool_name: str | None, limit: int, *terms: str
    ) -> list[ToolMetric]:
        """Return the newest rows of ``table`` that meet ``terms``. ``counted`` is their number per minute in ``tool_counts_1m``.

        The counts show since which hour, and then since which minute, there are ``limit`` rows. Only those rows are read.
        """
        order, end = "ORDER BY recorded_at DESC, metric_id", _end(None)
        where = self._where().equal("tool_name", tool_name).recorded(None, end).that(*terms)
        given = self._where().equal("tool_name", tool_name).parameters | {
            "limit": checked_limit(limit), "after": 0, "last": microseconds(end) // 1_000_000,
        }  # fmt: skip
        total = " + ".join(f"sum({column})" for column in counted.split(" + "))
        since: datetime | None = None
        complete = True
        for unit in ("toStartOfHour(minute)", "minute"):
            within = (f"{unit} >= toDateTime({{after:UInt32}}, 'UTC')", f"{unit} <= toDateTime({{last:UInt32}}, 'UTC')")
            near = self._where().equal("tool_name", tool_name).that(*within)
            rest = f"GROUP BY {unit} HAVING n > 0 ORDER BY start DESC LIMIT {{limit:UInt32}}"
            rows = await self._db.rows(select(f"{unit} AS start, {total} AS n", "tool_counts_1m", near, rest), given)
            reached = [
                row["start"] for row, n in zip(rows, accumulate(row["n"] for row in rows), strict=True) if n >= limit
            ]
            since = reached[0] if reached else rows[-1]["start"] if rows else None
            complete = complete and not reached
            if since is None:
                break
            given["after"] = int(since.timestamp())
        if since is not None:
            found = await self._metrics(
                table, self._where().equal("tool_name", tool_name).recorded(since, end).that(*terms), order, limit
            )
            if complete or len(found) >= limit:
                return found
        return await self._metrics(table, where, order, limit)  # rows of those minutes have been removed

    async def _metrics(self, table: str, where: Conditions, order: str, limit: int) -> list[ToolMetric]:
        sql = select(COLUMNS, table, where, f"{order} LIMIT {{limit:UInt32}}")
        rows = await self._db.rows(sql, where.parameters | {"limit": checked_limit(limit)})
        return [to_metric(row) for row in rows]


def _end(until: datetime | None) -> datetime:
    return window_end(datetime.now(UTC)) if until is None else until


def to_metric(row: Mapping[str, Any]) -> ToolMetric:
    """Return the ToolMetric of a row. Columns that are not one of its fields are left out."""
    values = {name: row[name] for name in COLUMNS if name in row}
    for name in _EMPTY_MEANS_NONE & values.keys():
        if values[name] == "":
            values[name] = None
    for name, most in _MOST.items():
        if values.get(name, 0) > most:
            values[name] = most
    metadata = values.get("metadata")
    if isinstance(metadata, str):
        values["metadata"] = _object(metadata)
    return ToolMetric.model_validate(values)


def to_json_line(metric: ToolMetric) -> bytes:
    """Return the row as ClickHouse reads it, as an emitter would have sent it."""
    return msgspec.json.encode(metric.model_dump(mode="json"))


def _object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {"raw": text}
    return value if isinstance(value, dict) else {"raw": value}


def _select_known_slow(conditions: Conditions, threshold_ms: float) -> tuple[str, dict[str, Any]]:
    """Return the SQL of the slowest calls above ``threshold_ms`` and :data:`SLOW_MS`, and its parameters except ``limit``.

    The shortest duration of the answer is found first, because ClickHouse skips rows outside of a top n only if it sorts
    by one column.
    """
    conditions.that("execution_time_ms > {threshold:Float64}", threshold=max(float(threshold_ms), SLOW_MS))
    top = select(
        "execution_time_ms", "tool_slow_calls", conditions, "ORDER BY execution_time_ms DESC LIMIT {limit:UInt32}"
    )
    least = f"execution_time_ms >= (SELECT min(execution_time_ms) FROM ({top}))"
    return select(COLUMNS, "tool_slow_calls", conditions, f"AND {least} {_SLOWEST}"), conditions.parameters


def _select_all_slow(conditions: Conditions, threshold_ms: float) -> tuple[str, dict[str, Any]]:
    """Return the same from ``tool_metrics``, for a threshold below :data:`SLOW_MS`. It scans all rows."""
    conditions.that("execution_time_ms > {threshold:Float64}", CALLS, threshold=float(threshold_ms))
    return select(COLUMNS, "tool_metrics", conditions, _SLOWEST), conditions.parameters


def _stats(tool_name: str, row: Mapping[str, Any], since: datetime | None, until: datetime | None) -> dict[str, Any]:
    successes, errors, timeouts, callers = (
        int(row[name]) for name in ("success_count", "error_count", "timeout_count", "caller_error_count")
    )
    judged = successes + errors + timeouts - callers
    known = list(row["percentiles"] or ()) if judged else []
    shortest, longest = float(row["min_time_ms"]), float(row["max_time_ms"])
    # the middle of a histogram's bucket may lie outside what was measured
    p50, p95, p99 = (max(shortest, min(longest, float(value))) for value in known or (0.0, 0.0, 0.0))
    return {
        "tool_name": tool_name,
        "total_calls": int(row["total_calls"]),
        "success_count": successes,
        "error_count": errors,
        "timeout_count": timeouts,
        "success_rate": successes / judged if judged else 0.0,
        "avg_time_ms": float(row["avg_time_ms"]),
        "min_time_ms": shortest,
        "max_time_ms": longest,
        "total_input_bytes": int(row["total_input_bytes"]),
        "total_output_bytes": int(row["total_output_bytes"]),
        "period": {
            "since": None if since is None else since.isoformat(),
            "until": None if until is None else until.isoformat(),
        },
        "rejected_count": int(row["rejected_count"]),
        "caller_error_count": callers,
        "cancelled_count": int(row["cancelled_count"]),
        "avg_cancelled_ms": float(row["avg_cancelled_ms"]),
        "total_cost_usd": float(row["total_cost_usd"]),
        "p50_time_ms": p50,
        "p95_time_ms": p95,
        "p99_time_ms": p99,
    }
