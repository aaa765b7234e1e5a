"""Read the numbers of the page ``now``: a fixed number of queries, however many tools there are."""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from switchgear_api.console.records import document, sentence
from switchgear_api.console.shapes import Blast, Saved, Stats, Waste
from switchgear_schemas.enums import BROKEN
from switchgear_sinks.health.verdict import Counted
from switchgear_sinks.repository import ToolMetricsRepository, rollups
from switchgear_sinks.repository.local_circuits import WITHIN, local_circuits
from switchgear_sinks.repository.queries import Conditions, microseconds, select, window_end
from switchgear_sinks.store import Database

MEAN_OVER: Final = timedelta(hours=24)
"""The mean cost of a failed call is that of the failed calls from so long before the opening until now."""
TOP_SERVICES: Final = 5
REFUSED: Final = "if(JSONHas(metadata, 'refused'), least(JSONExtractUInt(metadata, 'refused'), 1000000000), 1)"
"""Calls that one ``rejected`` event stands for: a process sums up what a circuit refuses within a second."""
_OPENED: Final = (
    "fromUnixTimestamp64Micro(transform(tool_name, {names:Array(String)}, {opened:Array(Int64)}, toInt64(0)), 'UTC')"
)
_TOKENS: Final = "input_tokens + output_tokens + cache_creation_tokens"
_COUNTED: Final = """
    toUInt64(sum(calls) - sum(rejections)) AS made, sum(errors) + sum(timeouts) - sum(caller_errors) AS failed,
    sum(timeouts) AS timed_out, sum(rejections) AS refusals, sum(caller_errors) AS callers_fault,
    sum(cancellations) AS cancelled, max(arrived_at) AS newest,
    toUInt64(made - sum(successes) - sum(errors) - sum(timeouts) - cancelled) AS ignored
"""


@dataclass(frozen=True, slots=True)
class ToolFigures(Counted):
    """The calls of one tool in the window."""

    last_at: datetime | None = None
    """When the newest event arrived: a call, or one that a circuit refused. To the second."""
    beat_calls: tuple[int, ...] = ()
    beat_errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outage:
    """What an open circuit has cost and saved since its opening, and whom it touches."""

    wasted: Waste = field(default_factory=lambda: Waste(calls=0, tokens=0, usd=0.0, seconds=0.0))
    mean_tokens: float = 0.0
    mean_usd: float = 0.0
    mean_seconds: float = 0.0
    refused: int = 0
    services: int = 0
    users: int = 0
    sessions: int = 0
    top_services: tuple[str, ...] = ()

    @property
    def saved(self) -> Saved:
        """What refusing has saved: the refused calls times the mean cost of a failed call."""
        return {
            "refused": self.refused,
            "tokens": round(self.refused * self.mean_tokens),
            "usd": self.refused * self.mean_usd,
            "seconds": self.refused * self.mean_seconds,
            "estimated": True,
        }

    @property
    def blast(self) -> Blast:
        """Whom it touches."""
        return {
            "services": self.services,
            "users": self.users,
            "sessions": self.sessions,
            "top_services": list(self.top_services),
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the store knows for the page."""

    since: datetime
    minutes: int
    tools: Mapping[str, ToolFigures]
    refused: Mapping[str, int]
    percentiles: Mapping[str, tuple[float, float, float]]
    outages: Mapping[str, Outage]
    local: Mapping[str, list[dict[str, Any]]]
    newest_event_at: datetime | None

    def stats(self, tool: str) -> Stats:
        """Return the statistics of a tool. Rates and times are of judged calls; times are null without one."""
        counted = self.tools.get(tool) or ToolFigures()
        p50, p95, p99 = self.percentiles.get(tool) or (None, None, None)
        return {
            "calls": counted.calls,
            "errors": counted.errors,
            "timeouts": counted.timeouts,
            "caller_errors": counted.caller_errors,
            "cancelled": counted.cancelled,
            "ignored": counted.ignored,
            "refused": self.refused.get(tool, 0),
            "error_rate": round(counted.error_rate, 6),
            "p50_ms": p50,
            "p95_ms": p95,
            "p99_ms": p99,
        }


async def read_figures(
    db: Database, now: datetime, minutes: int, tenant: str | None, opened: Mapping[str, datetime]
) -> Figures:
    """Read the window that ends with the present minute.

    Args:
        db: The store.
        now: The present time.
        minutes: Whole minutes of the window, the present one included.
        tenant: Only this tenant's calls. None means all.
        opened: When the circuits that refuse calls opened, by tool.
    """
    since, until = window_start(now, minutes), window_end(now)
    # One after the other: on the embedded engine, several at a time would take every processor from the streams of changes.
    counted = await _counts(db, since, minutes, tenant)
    latencies = await _percentiles(db, since, until, tenant)
    refused = await _refused(db, since, until, tenant)
    outages = await _outages(db, since, until, tenant, opened)
    local = await local_circuits(db, now - WITHIN, until, None) if tenant is None else []
    tools, newest = counted
    by_tool: dict[str, list[dict[str, Any]]] = {}
    for each in local:
        by_tool.setdefault(each["tool_name"], []).append(each)
    newest = newest or await ToolMetricsRepository(db, tenant=tenant).get_newest_arrival()
    return Figures(since, minutes, tools, refused, latencies, outages, by_tool, newest)


def window_start(now: datetime, minutes: int) -> datetime:
    """Return the start of the window: ``minutes`` whole minutes, the present one included."""
    return now.replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)


async def _counts(
    db: Database, since: datetime, minutes: int, tenant: str | None
) -> tuple[dict[str, ToolFigures], datetime | None]:
    where = Conditions(tenant).that(
        "minute >= toDateTime({since:UInt32}, 'UTC')", since=microseconds(since) // 1_000_000
    )
    inner = select(f"tool_name, minute, {_COUNTED}", "tool_counts_1m", where, "GROUP BY tool_name, minute")
    place = "toUInt32(intDiv(toUInt32(minute) - {since:UInt32}, 60))"
    rows = await db.rows(
        f"""SELECT tool_name, sum(made) AS calls, sum(failed) AS own, sum(timed_out) AS late, sum(callers_fault) AS callers,
            sum(cancelled) AS ended, sum(ignored) AS left_out, max(newest) AS arrived,
            groupArrayInsertAt(0, {minutes})(made, {place}) AS beat, groupArrayInsertAt(0, {minutes})(failed, {place}) AS bad
        FROM ({inner}) WHERE {place} < {minutes} GROUP BY tool_name""",
        where.parameters,
    )
    found = {
        row["tool_name"]: ToolFigures(
            row["calls"],
            row["own"],
            row["late"],
            row["callers"],
            row["ended"],
            row["left_out"],
            row["arrived"],
            tuple(row["beat"]),
            tuple(row["bad"]),
        )
        for row in rows
    }
    return found, max((row["arrived"] for row in rows), default=None)


async def _percentiles(
    db: Database, since: datetime, until: datetime, tenant: str | None
) -> dict[str, tuple[float, float, float]]:
    where = Conditions(tenant)
    sql, times = rollups.latencies(str(where), since, until)
    rows = await db.rows(sql, where.parameters | times)
    return {row["tool_name"]: tuple(row["percentiles"]) for row in rows}


async def _refused(db: Database, since: datetime, until: datetime, tenant: str | None) -> dict[str, int]:
    """Return the refused calls by tool. The counts name the tools, so that the rows of the others are not read."""
    where = Conditions(tenant).that(
        "minute >= toDateTime({since:UInt32}, 'UTC')", since=microseconds(since) // 1_000_000
    )
    names = select("tool_name", "tool_counts_1m", where, "GROUP BY tool_name HAVING sum(rejections) > 0")
    found = [row["tool_name"] for row in await db.rows(names, where.parameters)]
    if not found:
        return {}
    rejected = (
        Conditions(tenant).that("tool_name IN {names:Array(String)}", "status = 'rejected'").recorded(since, until)
    )
    parameters = rejected.parameters | {"names": found}
    sql = select(f"tool_name, sum({REFUSED}) AS refused", "tool_metrics", rejected, "GROUP BY tool_name")
    return {row["tool_name"]: row["refused"] for row in await db.rows(sql, parameters)}


async def _outages(
    db: Database, since: datetime, until: datetime, tenant: str | None, opened: Mapping[str, datetime]
) -> dict[str, Outage]:
    if not opened:
        return {}
    first = min(opened.values())
    given = {
        "names": list(opened),
        "opened": [microseconds(each) for each in opened.values()],
        "first": microseconds(first),
        "window": microseconds(since),
        "mean_us": int(MEAN_OVER.total_seconds()) * 1_000_000,
    }
    named = "tool_name IN {names:Array(String)}"
    failed = Conditions(tenant).that(named).recorded(first - MEAN_OVER, until)
    seen = Conditions(tenant).that(named).recorded(min(first, since), until)
    in_time = f"recorded_at >= {_OPENED}"
    near = f"recorded_at >= {_OPENED} - toIntervalMicrosecond({{mean_us:Int64}})"
    recent = "recorded_at >= fromUnixTimestamp64Micro({window:Int64}, 'UTC')"
    costs = await db.rows(
        select(
            f"""tool_name, countIf({in_time}) AS calls, sumIf({_TOKENS}, {in_time}) AS tokens, sumIf(cost_usd, {in_time}) AS usd,
            sumIf(execution_time_ms, {in_time}) / 1000 AS seconds, countIf({near}) AS counted,
            sumIf({_TOKENS}, {near}) AS all_tokens, sumIf(cost_usd, {near}) AS all_usd,
            sumIf(execution_time_ms, {near}) / 1000 AS all_seconds""",
            "tool_errors",
            failed,
            "GROUP BY tool_name",
        ),
        failed.parameters | given,
    )
    touched = await db.rows(
        select(
            f"""tool_name, sumIf({REFUSED}, status = 'rejected' AND {in_time}) AS refused,
            uniqExactIf(service, {recent} AND service != '') AS services,
            uniqExactIf(user_id, {recent} AND user_id != '') AS users,
            uniqExactIf(session_id, {recent} AND session_id != '') AS sessions,
            topKIf({TOP_SERVICES})(service, {recent} AND service != '') AS top""",
            "tool_metrics",
            seen,
            "GROUP BY tool_name",
        ),
        seen.parameters | given,
    )
    cost, touch = ({row["tool_name"]: row for row in rows} for rows in (costs, touched))
    return {name: _outage(cost.get(name), touch.get(name)) for name in opened}


def _outage(cost: Mapping[str, Any] | None, touch: Mapping[str, Any] | None) -> Outage:
    found: dict[str, Any] = {}
    if cost is not None:
        counted = cost["counted"] or 1
        found |= {
            "wasted": {name: cost[name] for name in ("calls", "tokens", "usd", "seconds")},
            "mean_tokens": cost["all_tokens"] / counted,
            "mean_usd": cost["all_usd"] / counted,
            "mean_seconds": cost["all_seconds"] / counted,
        }
    if touch is not None:
        found |= {name: touch[name] for name in ("refused", "services", "users", "sessions")}
        found["top_services"] = tuple(touch["top"])
    return Outage(**found)


class Opening(NamedTuple):
    """The moment when a circuit began to refuse calls. Failed probes later don't change it."""

    at: datetime
    why: str | None = None
    """A sentence; None if it is not stored."""


async def read_openings(db: Database, circuit_ids: list[str]) -> dict[str, Opening]:
    """Return when and why circuits last began to refuse calls, by circuit id, as far as it is stored."""
    if not circuit_ids:
        return {}
    where = Conditions(None).that(
        "circuit_id IN {ids:Array(String)}",
        f"state IN {BROKEN}",
        f"previous_state NOT IN {BROKEN}",
        ids=circuit_ids,
    )
    rows = await db.rows(
        select(
            "circuit_id, max(changed_at) AS at, argMax((cause, counts, state), changed_at) AS last",
            "circuit_transitions",
            where,
            "GROUP BY circuit_id",
        ),
        where.parameters,
    )
    return {row["circuit_id"]: Opening(row["at"], _why(*row["last"])) for row in rows}


def _why(cause: str, counts: str, state: str) -> str | None:
    return sentence(document(cause), document(counts), state)


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
