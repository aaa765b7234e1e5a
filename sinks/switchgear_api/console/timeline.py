"""The page ``timeline``: all transitions over the fleet's error rate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import json_answer
from switchgear_api.console.audit import NEWEST_STAGE, WITHOUT_EFFECT
from switchgear_api.console.figures import utc_now
from switchgear_api.console.page_shapes import Mark, Span, TimelineAnswer, Transition
from switchgear_api.console.records import document, iso, sentence
from switchgear_api.console.series import fleet_series
from switchgear_api.console.shapes import State
from switchgear_api.parameters import Parameters, query
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_sinks.repository.queries import Conditions, microseconds, select
from switchgear_sinks.store import Database

MOST: Final = 5_000
_COLUMNS: Final = (
    "circuit_id, tool_name, scope, state, previous_state, version, cause, counts, changed_at, open_until, attempt"
)


class Timeline(Handlers):
    """The handler over one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @route("GET", "/v1/console/timeline", Role.READ, query("hours tenant"))
    async def __call__(self, request: Request) -> Response:
        """List all transitions over the fleet's error rate."""
        given, rights = Parameters.of(request), Rights.of(request)
        hours, now = given.hours(24.0) or 24.0, utc_now()
        tenant = rights.tenant(given.text("tenant"))
        rights.check_unrestricted_tools("The timeline of all tools")
        since = now - timedelta(hours=hours)
        series, rows, marks = await asyncio.gather(
            fleet_series(self._db, tenant, now, hours),
            transitions(self._db, since, most=MOST + 1) if rights.all_tenants else _nothing(),
            _policy_marks(self._db, since) if rights.all_tenants else _nothing(),
        )
        found = [transition(row) for row in rows[-MOST:]]
        answer: TimelineAnswer = {
            "since": iso(since),
            "transitions": found,
            "truncated": len(rows) > MOST,
            "series": series,
            "marks": sorted([*command_marks(found), *marks], key=lambda each: each["at"]),
        }
        return json_answer(answer)


async def transitions(
    db: Database, since: datetime, circuit_id: str | None = None, *, most: int = MOST
) -> list[dict[str, Any]]:
    """Return the changes of state since a time, oldest first; the newest ``most`` if there are more.

    Args:
        db: The store.
        since: The beginning.
        circuit_id: Only this circuit.
        most: The most rows.
    """
    where = Conditions(None).equal("circuit_id", circuit_id)
    where.that(
        "state != previous_state",
        "changed_at >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')",
        since=microseconds(since),
    )
    rest = f"ORDER BY changed_at DESC, circuit_id, version DESC LIMIT 1 BY circuit_id, version LIMIT {most}"
    rows = await db.rows(select(_COLUMNS, "circuit_transitions", where, rest), where.parameters)
    return [row | {"cause": document(row["cause"]), "counts": document(row["counts"])} for row in reversed(rows)]


def transition(row: Mapping[str, Any]) -> Transition:
    """Return one change of state for a page."""
    cause = row["cause"] or {}
    return {
        "at": iso(row["changed_at"]),
        "circuit_id": row["circuit_id"],
        "tool": row["tool_name"],
        "scope": row["scope"],
        "from": row["previous_state"] or None,
        "to": row["state"],
        "rule": cause.get("rule"),
        "why": sentence(row["cause"], row["counts"], row["state"]),
        "actor": cause.get("actor") if cause.get("rule") in {"command", "set_policy"} else None,
        "version": row["version"],
    }


def bands(
    rows: Iterable[Mapping[str, Any]], before: Mapping[str, Any] | None, since: datetime, until: datetime
) -> list[Span]:
    """Return the states of one circuit over a period, without gaps.

    Args:
        rows: Its changes of state in the period, oldest first.
        before: The last change before the period; None if there is none, and the circuit was closed.
        since: The beginning of the period.
        until: The end of the period.
    """
    found: list[Span] = []
    state: State = "closed" if before is None else before["state"]
    at, why = since, None if before is None else transition(before)["why"]
    for row in rows:
        if row["changed_at"] > at:
            found.append({"at": iso(at), "until": iso(row["changed_at"]), "state": state, "why": why})
        at, state, why = row["changed_at"], row["state"], transition(row)["why"]
    if until > at or not found:
        found.append({"at": iso(at), "until": iso(until), "state": state, "why": why})
    return found


def command_marks(found: Iterable[Transition]) -> list[Mark]:
    """Return a mark for every command of an operator. A command to many circuits at once is one mark."""
    tools: dict[tuple[str, str | None, str], list[Transition]] = {}
    for each in found:
        if each["actor"] is not None:
            tools.setdefault((each["actor"], each["why"], each["at"][:19]), []).append(each)
    return [
        {"at": of[0]["at"], "kind": "command", "text": f"{', '.join(each['tool'] for each in of[:3])}: {of[0]['why']}"}
        for of in tools.values()
    ]


async def _policy_marks(db: Database, since: datetime) -> list[Mark]:
    where = Conditions(None).that(
        "at >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')", "action = 'set_policy'", since=microseconds(since)
    )
    columns, rest = "at, actor, subject, reason, outcome", f"{NEWEST_STAGE} LIMIT {MOST}"
    rows = await db.rows(select(columns, "operator_actions", where, rest), where.parameters)
    return [
        {
            "at": iso(row["at"]),
            "kind": "policy",
            "text": f"{row['subject']}: policy changed by {row['actor']}: {row['reason']}",
        }
        for row in rows
        if row["outcome"] not in WITHOUT_EFFECT
    ]


async def _nothing() -> list[dict[str, Any]]:
    return []
