"""Search the stored calls, page by page."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import BadRequestError, json_answer
from switchgear_api.console.figures import utc_now
from switchgear_api.console.page_shapes import Call
from switchgear_api.console.records import iso
from switchgear_api.parameters import Parameters, query
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.enums import EARLIEST, LATEST
from switchgear_sinks.repository.queries import Conditions, microseconds, select, window_end
from switchgear_sinks.store import Database

DEFAULT_PERIOD: Final = timedelta(hours=24)
SESSION_PERIOD: Final = timedelta(days=31)
MOST_ROWS: Final = 1_000
COLUMNS: Final = (
    "metric_id", "recorded_at", "tenant", "tool_name", "status", "error_class", "error_type", "error_message", "execution_time_ms",
    "service", "emitter_id", "user_id", "session_id", "request_id", "input_tokens", "output_tokens", "cache_creation_tokens",
    "cost_usd", "served_by", "fallback_tool", "generation", "lease_id", "traceparent", "parameters_hash", "input_size",
    "output_size", "metadata",
)  # fmt: skip
_CURSOR: Final = re.compile(r"(-?\d{1,18}):([0-9a-f-]{36})")


def call_of(row: Mapping[str, Any]) -> Call:
    """Return one call for a page. What is not stored is null."""
    return {
        "metric_id": str(row["metric_id"]),
        "at": iso(row["recorded_at"]),
        "tenant": row["tenant"] or None,
        "tool": row["tool_name"],
        "status": row["status"],
        "duration_ms": row["execution_time_ms"],
        "process": row["emitter_id"] or None,
        "tokens": row["input_tokens"] + row["output_tokens"] + row["cache_creation_tokens"],
        "usd": row["cost_usd"],
        "served_by": row["served_by"],
        "generation": row["generation"],
        "input_size": row["input_size"],
        "output_size": row["output_size"],
        "error_class": row["error_class"] or None,
        "error_type": row["error_type"] or None,
        "error_message": row["error_message"] or None,
        "service": row["service"] or None,
        "user_id": row["user_id"] or None,
        "session_id": row["session_id"] or None,
        "request_id": row["request_id"] or None,
        "fallback_tool": row["fallback_tool"] or None,
        "lease_id": row["lease_id"] or None,
        "traceparent": row["traceparent"] or None,
        "parameters_hash": row["parameters_hash"] or None,
        "metadata": row["metadata"] or None,
    }


class Calls(Handlers):
    """The handlers over one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @route(
        "GET",
        "/v1/calls",
        Role.READ,
        query("tool status class user session service text since until after limit tenant"),
    )
    async def search(self, request: Request) -> Response:
        """Search the stored calls, newest first."""
        given, rights = Parameters.of(request), Rights.of(request)
        rights.check_tool(given.text("tool"))
        where = Conditions(rights.tenant(given.text("tenant")))
        columns = {
            "tool_name": "tool",
            "status": "status",
            "error_class": "class",
            "user_id": "user",
            "session_id": "session",
            "service": "service",
        }
        for column, name in columns.items():
            where.equal(column, given.text(name))
        if (text := given.text("text")) is not None:
            places = ("error_message", "error_type", "metadata", "tool_name")
            found = " OR ".join(f"positionCaseInsensitiveUTF8({each}, {{text:String}}) > 0" for each in places)
            where.that(f"({found})", text=text)
        period = DEFAULT_PERIOD if given.text("session") is None else SESSION_PERIOD
        until = moment(given, "until")
        since = moment(given, "since") or (until or utc_now()) - period
        where.recorded(since, until or window_end(utc_now()))
        return await self._page(where, given, newest_first=True, more={"since": iso(since)})

    @route("GET", "/v1/sessions/{session_id:path}/calls", Role.READ, query("after limit tenant"))
    async def session(self, request: Request) -> Response:
        """List the calls of a session in their order."""
        given, rights = Parameters.of(request), Rights.of(request)
        rights.check_unrestricted_tools("The calls of a session")
        where = Conditions(rights.tenant(given.text("tenant"))).equal("session_id", request.path_params["session_id"])
        now = utc_now()
        where.recorded(now - SESSION_PERIOD, window_end(now))
        return await self._page(where, given, newest_first=False, more={})

    async def _page(
        self, where: Conditions, given: Parameters, *, newest_first: bool, more: Mapping[str, Any]
    ) -> Response:
        limit = min(given.limit(50), MOST_ROWS)
        if (after := given.text("after")) is not None:
            at, identity = read_cursor(after)
            sign = "<" if newest_first else ">"
            where.that(
                f"(recorded_at, metric_id) {sign} (fromUnixTimestamp64Micro({{after_at:Int64}}, 'UTC'), {{after_id:UUID}})",
                after_at=at,
                after_id=identity,
            )
        direction = "DESC" if newest_first else "ASC"
        rest = f"ORDER BY recorded_at {direction}, metric_id {direction} LIMIT {limit + 1}"
        rows = await self._db.rows(select(COLUMNS, "tool_metrics", where, rest), where.parameters)
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = cursor(last["recorded_at"], str(last["metric_id"]))
        return json_answer({"items": [call_of(row) for row in rows[:limit]], "next": following, **more})


def cursor(at: datetime, identity: str) -> str:
    """Return a text that names a place in the order of the calls."""
    return base64.urlsafe_b64encode(f"{microseconds(at)}:{identity}".encode()).decode().rstrip("=")


def read_cursor(text: str) -> tuple[int, str]:
    """Return the microseconds since 1970 and the id of a cursor.

    Raises:
        BadRequestError: It is not a cursor.
    """
    try:
        found = _CURSOR.fullmatch(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        if found is not None:
            return int(found[1]), str(UUID(found[2]))
    except (binascii.Error, ValueError):
        pass
    raise BadRequestError(f"after {text[:80]!r} is not a cursor.", hint="Pass next of the page before, unchanged.")


def moment(given: Parameters, name: str) -> datetime | None:
    """Return a parameter that is a time. One without an offset is in UTC.

    Raises:
        BadRequestError: It is not a time.
    """
    text = given.text(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequestError(
            f"{name} must be a time, got {text[:80]!r}.", hint="For instance 2026-11-26T02:00:00Z."
        ) from None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    if not EARLIEST <= at < LATEST:
        raise BadRequestError(
            f"{name} must lie between {EARLIEST.year} and {LATEST.year}, got {text[:80]!r}.",
            hint="For instance 2026-11-26T02:00:00Z.",
        )
    return at
