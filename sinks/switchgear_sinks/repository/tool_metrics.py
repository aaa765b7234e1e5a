"""ToolMetricsRepository: every stored call of every tool (the seeds' interface)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Protocol

from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.migrations import migrate
from switchgear_sinks.repository import rollups, slow_calls
from switchgear_sinks.repository.queries import (
    NOT_CANCELLED,
    STATS,
    TOOLS_OWN,
    Conditions,
    checked_limit,
    select,
)
from switchgear_sinks.repository.rows import COLUMNS, to_json_line, to_metric
from switchgear_sinks.store import Database


class Logger(Protocol):
    """What is used of a logger: stdlib's and structlog's both fit."""

    def info(self, msg: str, *args: Any) -> Any:
        """Log at level info."""


class ToolMetricsRepository:
    """Reads and writes of ``tool_metrics``.

    A row with ``status = 'rejected'`` is a call that a circuit refused: it was never made. It is in no total, rate or
    time; statistics count it as ``rejected_count``.

    Rates and times are of the calls that say something of the tool: successes, and errors and timeouts whose class counts by
    default or is not given. Caller errors (classes ``tool``, ``invalid_input``, ``auth``, ``policy``) and cancelled calls are
    in ``total_calls`` and have counts of their own. A success that its caller ignores (class ``policy``) is in ``total_calls`` alone.

    Args:
        db: A clickhouse-connect client (sync or async, HTTP or chDB) or a Store, with the store's database selected.
        logger: Where deletions are told; ``switchgear.repository`` where None.
        tenant: Only this tenant's rows; None: everybody's.

    Errors are clickhouse-connect's, and TimeoutError after a minute.
    """

    def __init__(self, db: Any, logger: Logger | None = None, *, tenant: str | None = None) -> None:
        self._db = db if isinstance(db, Database) else Database(db)
        self._logger: Logger = logger or logging.getLogger("switchgear.repository")
        self._tenant = tenant

    @property
    def database(self) -> Database:
        """The connection, for whoever reads beside the repository."""
        return self._db

    @property
    def tenant(self) -> str | None:
        """Whose rows are read."""
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
        """Store one call, at once, without Kafka: its Kafka coordinates stay at their defaults.

        For many calls emit them: one insert a call costs ClickHouse a part a call. Recording the same ``metric_id``
        again stores it again.

        Returns:
            The metric as given.
        """
        await self._db.insert_json("tool_metrics", to_json_line(metric))
        return metric

    async def get_tool_stats(
        self, tool_name: str, since: datetime | None = None, until: datetime | None = None
    ) -> dict[str, Any]:
        """Statistics of one tool over a period, both ends included; a tool without calls has zeros.

        Beside the seeds' keys: ``rejected_count``, ``caller_error_count`` (part of ``error_count`` and ``timeout_count``),
        ``cancelled_count`` and ``avg_cancelled_ms`` (of cancelled calls), ``total_cost_usd``, ``p50_time_ms``,
        ``p95_time_ms``, ``p99_time_ms`` (t-digest).
        """
        where = self._where().equal("tool_name", tool_name).recorded(since, until)
        rows = await self._db.rows(select(STATS, "tool_metrics", where), where.parameters)
        return _stats(tool_name, rows[0], since, until)

    async def get_all_tool_stats(
        self, since: datetime | None = None, until: datetime | None = None, *, tool_name: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """:meth:`get_tool_stats` of every tool that has rows in the period, in one query; ``tool_name`` narrows it to one.

        A period that begins on a whole minute and is open at its end, or one of two hours and more, is read from the
        counts by the hour and minute (and raw rows only where the period cuts a minute) and the latency histograms a quarter
        of an hour: counts and sums are the same, percentiles are those of the quarters that the period touches, off by 9 % at
        most. Rows that :meth:`cleanup_old_metrics` removed are still in those counts.
        """
        where = self._where().equal("tool_name", tool_name)
        if since is None or not rollups.serve(since, until):
            where.recorded(since, until)
            sql = select(f"tool_name, {STATS}", "tool_metrics", where, "GROUP BY tool_name ORDER BY tool_name")
            rows = await self._db.rows(sql, where.parameters)
        else:
            statements = (build(str(where), since, until) for build in (rollups.counts, rollups.latencies))
            rows, latencies = await asyncio.gather(
                *(self._db.rows(sql, where.parameters | times) for sql, times in statements)
            )
            percentiles = {row["tool_name"]: row["percentiles"] for row in latencies}
            rows = [row | {"percentiles": percentiles.get(row["tool_name"])} for row in rows]
        return {row["tool_name"]: _stats(row["tool_name"], row, since, until) for row in rows}

    async def get_recent_errors(self, tool_name: str | None = None, limit: int = 10) -> list[ToolMetric]:
        """Errors and timeouts, caller errors included, newest first; of all tools where ``tool_name`` is None."""
        return await self._newest("tool_errors", "errors + timeouts", tool_name, limit, NOT_CANCELLED)

    async def get_all_tool_names(self) -> list[str]:
        """Names of all tools that have rows, sorted."""
        where = self._where()
        rows = await self._db.rows(
            select("DISTINCT tool_name", "tool_metrics", where, "ORDER BY tool_name"), where.parameters
        )
        return [row["tool_name"] for row in rows]

    async def get_known_tool_names(self) -> list[str]:
        """Names of all tools that were ever called, sorted: of those whose rows have been removed too.

        From the counts by the hour: it takes as long as there are tools and hours, not calls.
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
        """Calls that took longer than ``threshold_ms``, slowest first.

        Calls above five seconds have a table of their own, so that the answer does not take longer the more is stored.
        Only where a lower threshold is asked for and fewer than ``limit`` calls are above five seconds, all rows are read.
        """
        given = {"limit": checked_limit(limit)}
        for statement, least in ((slow_calls.known_slow, slow_calls.SLOW_MS), (slow_calls.all_above, 0.0)):
            where = self._where().equal("tool_name", tool_name).recorded(since, None)
            sql, parameters = statement(where, threshold_ms)
            rows = await self._db.rows(sql, parameters | given)
            if len(rows) >= limit or threshold_ms >= least:
                break
        return [to_metric(row) for row in rows]

    async def get_recent_executions(self, tool_name: str, limit: int = 100) -> list[ToolMetric]:
        """Calls of a tool, newest first; refused ones too, as they were recorded."""
        return await self._newest("tool_metrics", "calls", tool_name, limit)

    async def get_last_calls(self, tool_name: str) -> dict[str, Any]:
        """When a tool last succeeded and last failed, and with what. Caller errors are no failures of the tool.

        Returns:
            ``stored`` (rows of ``tool_metrics``, refused calls too), ``last_success`` and ``last_failure`` (from the counts
            a minute, which outlive the rows), ``last_error`` (message, else type, else status, of the newest row in
            ``tool_errors``).
        """
        where = self._where().equal("tool_name", tool_name)
        times = """max(last_success_at) AS succeeded, sum(successes) AS successes,
            max(last_failure_at) AS failed, sum(errors) + sum(timeouts) - sum(caller_errors) AS failures"""
        stored, counted = await asyncio.gather(
            self._db.rows(select("count() AS n", "tool_metrics", where), where.parameters),
            self._db.rows(select(times, "tool_counts_1m", where), where.parameters),
        )
        row = counted[0]
        if not row["failures"]:
            newest = []
        else:
            where.recorded(row["failed"], None).that(NOT_CANCELLED, TOOLS_OWN)
            sql = select("error_message, error_type, status", "tool_errors", where, "ORDER BY recorded_at DESC LIMIT 1")
            newest = await self._db.rows(sql, where.parameters)
        return {
            "stored": stored[0]["n"],
            "last_success": row["succeeded"] if row["successes"] else None,
            "last_failure": row["failed"] if row["failures"] else None,
            "last_error": next((each for error in newest for each in error.values() if each), None),
        }

    async def cleanup_old_metrics(self, older_than_days: int = 30) -> int:
        """Delete the rows recorded longer ago than that, and wait until they are gone.

        Counts and histograms by the minute stay: they are small, and history reads them.

        Returns:
            How many rows of ``tool_metrics`` were removed.

        Raises:
            ValueError: for a negative number of days.
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
        """The newest rows of ``table`` that meet ``terms``; it has as many a minute as ``tool_counts_1m`` says in ``counted``.

        The counts tell since which hour, and then since which minute, there are as many as are wanted: only those rows are read.
        """
        order = "ORDER BY recorded_at DESC, metric_id"
        where = self._where().equal("tool_name", tool_name).that(*terms)
        given = where.parameters | {"limit": checked_limit(limit), "after": 0}
        total = " + ".join(f"sum({column})" for column in counted.split(" + "))
        since: datetime | None = None
        complete = False
        for unit in ("toStartOfHour(minute)", "minute"):
            near = self._where().equal("tool_name", tool_name).that(f"{unit} >= toDateTime({{after:UInt32}}, 'UTC')")
            rest = f"GROUP BY {unit} HAVING n > 0 ORDER BY start DESC LIMIT {{limit:UInt32}}"
            rows = await self._db.rows(select(f"{unit} AS start, {total} AS n", "tool_counts_1m", near, rest), given)
            reached = [
                row["start"] for row, n in zip(rows, accumulate(row["n"] for row in rows), strict=True) if n >= limit
            ]
            since, complete = (reached[0], False) if reached else (rows[-1]["start"] if rows else None, True)
            if since is None:
                break
            given["after"] = int(since.timestamp())
        if since is not None:
            found = await self._metrics(
                table, self._where().equal("tool_name", tool_name).recorded(since, None).that(*terms), order, limit
            )
            if complete or len(found) >= limit:
                return found
        return await self._metrics(table, where, order, limit)  # rows of those minutes have been removed

    async def _metrics(self, table: str, where: Conditions, order: str, limit: int) -> list[ToolMetric]:
        sql = select(COLUMNS, table, where, f"{order} LIMIT {{limit:UInt32}}")
        rows = await self._db.rows(sql, where.parameters | {"limit": checked_limit(limit)})
        return [to_metric(row) for row in rows]


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
