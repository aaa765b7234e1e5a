"""The page of one tool."""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final, cast

import structlog
from starlette.requests import Request
from starlette.responses import Response

from switchgear.policies import PolicyError
from switchgear_api.answers import NotFoundError, json_answer
from switchgear_api.console.board import Boards
from switchgear_api.console.calls import COLUMNS, call_of
from switchgear_api.console.figures import Figures, utc_now
from switchgear_api.console.live import WINDOW_MINUTES
from switchgear_api.console.now import tool_row
from switchgear_api.console.page_shapes import Call, Caller, ErrorPattern, PolicyValue, Span, ToolAnswer
from switchgear_api.console.policies import EffectivePolicies
from switchgear_api.console.records import iso, no_circuit
from switchgear_api.console.series import tool_series
from switchgear_api.console.shapes import Tool, Waste
from switchgear_api.console.timeline import bands, transitions
from switchgear_api.parameters import Parameters, query
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.families import family_of
from switchgear_schemas.settings import Settings
from switchgear_sinks.repository.queries import CALLS, FAILED, TOOLS_OWN, Conditions, select, template, window_end
from switchgear_sinks.store import Database

log = structlog.get_logger()

MOST_ERRORS: Final = 20
MOST_CALLS: Final = 20
MOST_CALLERS: Final = 50
_NAMING_TOOLS: Final = frozenset({"fallback"})
"""Settings of a policy with names of other tools, which a tenant may not know."""
_CLASS: Final = "multiIf(error_class != '', error_class, status = 'timeout', 'timeout', 'unknown')"


class ToolPage(Handlers):
    """The handler.

    Args:
        db: The calls.
        boards: The numbers of the window.
        policies: The policies in force.
        settings: ``family_pattern`` is used.
    """

    def __init__(self, db: Database, boards: Boards, policies: EffectivePolicies, settings: Settings) -> None:
        self._db = db
        self._boards = boards
        self._policies = policies
        self._pattern = settings.family_pattern

    @route("GET", "/v1/console/tool/{name:path}", Role.READ, query("hours tenant"))
    async def __call__(self, request: Request) -> Response:
        """Show everything about one tool."""
        given, rights = Parameters.of(request), Rights.of(request)
        name: str = request.path_params["name"]
        rights.check_tool(name)
        hours, now = given.hours(6.0) or 6.0, utc_now()
        tenant = rights.tenant(given.text("tenant"))
        since, until = now - timedelta(hours=hours), window_end(now)
        visible = rights.all_tenants
        snapshot = await self._boards.snapshot(WINDOW_MINUTES, tenant, circuits=visible)
        series, states, errors, (slow, recent), (waste, callers), (policy, policy_error) = await asyncio.gather(
            tool_series(self._db, name, tenant, now, hours),
            self._states(name, since, now) if visible else _nothing(),
            self._errors(name, tenant, since, until),
            asyncio.gather(
                self._calls(
                    name, tenant, (since, until), "ORDER BY execution_time_ms DESC, metric_id", "status != 'rejected'"
                ),
                self._calls(name, tenant, (since, until), "ORDER BY recorded_at DESC, metric_id"),
            ),
            asyncio.gather(self._waste(name, tenant, since, until), self._callers(name, tenant, since, until)),
            self._policy(name, visible=visible),
        )
        row = next((each for each in snapshot.content["tools"] if each["tool"] == name), None)
        if row is None:
            if not recent and not await self._known(name, tenant):
                raise NotFoundError(f"No tool {name!r} has been called.", hint="The page `now` lists those that have.")
            row = self._quiet(name, snapshot.figures, visible=visible)
        answer: ToolAnswer = {
            "checked_at": iso(now),
            "since": iso(since),
            "tool": row,
            "states": states,
            "series": series,
            "errors": errors,
            "slow": slow,
            "recent": recent,
            "waste": waste,
            "policy": policy,
            "policy_error": policy_error,
            "callers": callers,
        }
        return json_answer(answer)

    async def _policy(self, name: str, *, visible: bool) -> tuple[list[PolicyValue], str | None]:
        """Return the rows of the policy, and why there are none."""
        try:
            rows = await self._policies.rows(name)
            return [each for each in rows if visible or each["setting"] not in _NAMING_TOOLS], None
        except PolicyError as error:
            return [], error.message

    def _quiet(self, name: str, figures: Figures, *, visible: bool) -> Tool:
        part = no_circuit(name, family_of(name, self._pattern))
        if not visible:
            part["state"] = "unknown"
        return tool_row(part, name, figures, None)

    async def _known(self, name: str, tenant: str | None) -> bool:
        where = Conditions(tenant).equal("tool_name", name)
        return bool((await self._db.rows(select("count() AS n", "tool_counts_1m", where), where.parameters))[0]["n"])

    async def _states(self, name: str, since: datetime, until: datetime) -> list[Span]:
        everything = await transitions(self._db, datetime(1970, 1, 1, tzinfo=UTC), name)
        before = next((row for row in reversed(everything) if row["changed_at"] < since), None)
        return bands([row for row in everything if row["changed_at"] >= since], before, since, until)

    async def _errors(self, name: str, tenant: str | None, since: datetime, until: datetime) -> list[ErrorPattern]:
        where = Conditions(tenant).equal("tool_name", name).recorded(since, until)
        rows = await self._db.rows(
            select(
                f"""{template("error_message")} AS pattern, {_CLASS} AS class, any(error_type) AS type, count() AS n,
                min(recorded_at) AS first, max(recorded_at) AS last, argMax(error_message, recorded_at) AS example""",
                "tool_errors",
                where,
                f"GROUP BY pattern, class ORDER BY n DESC, last DESC LIMIT {MOST_ERRORS}",
            ),
            where.parameters,
        )
        return [
            {
                "template": row["pattern"],
                "class": row["class"],
                "type": row["type"] or None,
                "count": row["n"],
                "first_at": iso(row["first"]),
                "last_at": iso(row["last"]),
                "example": row["example"],
            }
            for row in rows
        ]

    async def _calls(
        self, name: str, tenant: str | None, period: tuple[datetime, datetime], order: str, *terms: str
    ) -> list[Call]:
        where = Conditions(tenant).equal("tool_name", name).recorded(*period).that(*terms)
        # Order the ids first: the texts of all calls of the period are not read then.
        ids = select("metric_id, recorded_at", "tool_metrics", where, f"{order} LIMIT {MOST_CALLS}")
        outer = (
            Conditions(tenant)
            .equal("tool_name", name)
            .that(f"(metric_id, recorded_at) IN (SELECT metric_id, recorded_at FROM ({ids}))")
        )
        rows = await self._db.rows(
            select(COLUMNS, "tool_metrics", outer, f"{order} LIMIT {MOST_CALLS}"), where.parameters | outer.parameters
        )
        return [call_of(row) for row in rows]

    async def _waste(self, name: str, tenant: str | None, since: datetime, until: datetime) -> Waste:
        where = Conditions(tenant).equal("tool_name", name).recorded(since, until)
        (row,) = await self._db.rows(
            select(
                """count() AS calls, sum(input_tokens + output_tokens + cache_creation_tokens) AS tokens, sum(cost_usd) AS usd,
                sum(execution_time_ms) / 1000 AS seconds""",
                "tool_errors",
                where,
            ),
            where.parameters,
        )
        return cast("Waste", row)

    async def _callers(self, name: str, tenant: str | None, since: datetime, until: datetime) -> list[Caller]:
        where = Conditions(tenant).equal("tool_name", name).recorded(since, until)
        rows = await self._db.rows(
            select(
                f"""service, emitter_id, countIf({CALLS}) AS calls, countIf({FAILED} AND {TOOLS_OWN}) AS failed,
                max(recorded_at) AS last""",
                "tool_metrics",
                where,
                f"GROUP BY service, emitter_id ORDER BY calls DESC, emitter_id LIMIT {MOST_CALLERS}",
            ),
            where.parameters,
        )
        return [
            {
                "service": row["service"] or None,
                "host": row["emitter_id"] or None,
                "calls": row["calls"],
                "errors": row["failed"],
                "last_at": iso(row["last"]),
            }
            for row in rows
        ]


async def _nothing() -> list[Span]:
    return []
