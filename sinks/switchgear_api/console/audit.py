"""The record of what operators do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec
from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import BadRequestError, NotFoundError, json_answer
from switchgear_api.console.calls import cursor, read_cursor
from switchgear_api.console.figures import utc_now
from switchgear_api.console.page_shapes import AuditItem
from switchgear_api.console.records import iso
from switchgear_api.parameters import Parameters, query
from switchgear_api.rights import Rights
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Role, claims_login
from switchgear_http.routing import Handlers, route
from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.clickhouse_errors import clickhouse_message
from switchgear_sinks.repository.queries import Conditions, microseconds, select
from switchgear_sinks.store import Database

_COLUMNS: Final = (
    "audit_id", "at", "stage", "actor", "address", "action", "subject", "reason", "outcome", "detail", "before", "after", "undo",
    "undo_of", "expires_at",
)  # fmt: skip
WITHOUT_EFFECT: Final = frozenset({"failed", "refused"})
"""Outcomes of actions that changed nothing."""
NEWEST_STAGE: Final = "ORDER BY at DESC, audit_id DESC, stage DESC LIMIT 1 BY audit_id"


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an operator.

    Args:
        actor: Who.
        address: Where the request came from.
        action: What: a verb, or the name of another action.
        subject: The circuit, the tool or glob, or the dead letter.
        reason: Why.
        before: State before.
        undo: The commands that undo it, as JSON values. None if it can't be undone.
        undo_of: The action that this one undoes.
        expires_at: When it ends by itself.
    """

    actor: str
    address: str
    action: str
    subject: str
    reason: str
    before: Mapping[str, Any] | None = None
    undo: list[dict[str, Any]] | None = None
    undo_of: str = ""
    expires_at: datetime | None = None
    after: Mapping[str, Any] | None = None
    outcome: str = "asked"
    detail: str = ""
    stage: int = 0
    audit_id: UUID = field(default_factory=uuid4)
    at: datetime = field(default_factory=utc_now)

    @classmethod
    def of(
        cls, request: Request, action: str, subject: str, reason: str, *, actor: str | None = None, **more: Any
    ) -> Action:
        """Return an action of the client that sends a request. Without tokens it may say who acts, as ``actor``.

        Raises:
            BadRequestError: The client has logged in, and says who acts. Or it hasn't, and says that it has.
        """
        if actor is not None and not Rights.of(request).local:
            raise BadRequestError(
                "actor: the actor of this request is the one that has logged in.", hint="Leave out actor."
            )
        if actor is not None and claims_login(actor):
            raise BadRequestError(
                "actor: a name that begins with token: or jwt: is for clients that have logged in.",
                hint="Give another name, such as user@host.",
            )
        address = "" if request.client is None else request.client.host
        return cls(actor or principal_of(request.scope).actor, address, action, subject, reason, **more)

    def ended(self, outcome: str, detail: str = "", after: Mapping[str, Any] | None = None) -> Action:
        """Return the same action with its outcome."""
        return replace(self, outcome=outcome, detail=detail, after=after, stage=1)


class Audit(Handlers):
    """Writes and reads the table ``operator_actions``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @asynccontextmanager
    async def noting_failure(self, action: Action) -> AsyncIterator[None]:
        """Record that an action failed, if the block raises an error of ours or of ClickHouse."""
        try:
            yield
        except (SwitchgearError, ClickHouseError) as error:
            why = error.message if isinstance(error, SwitchgearError) else clickhouse_message(error)
            await self.write(action.ended("failed", why))
            raise

    async def write(self, action: Action) -> None:
        """Store an action, or its outcome."""
        row = {
            name: getattr(action, name)
            for name in ("stage", "actor", "address", "action", "subject", "reason", "outcome", "detail", "undo_of")
        }
        row |= {
            "audit_id": str(action.audit_id),
            "at": _clickhouse(action.at),
            "before": _json(action.before),
            "after": _json(action.after),
            "undo": _json(action.undo),
            "expires_at": None if action.expires_at is None else _clickhouse(action.expires_at),
        }
        await self._db.insert_json("operator_actions", msgspec.json.encode(row))

    async def find(self, audit_id: str) -> dict[str, Any]:
        """Return one action.

        Raises:
            NotFoundError: There is none with this id.
        """
        try:
            identity = str(UUID(audit_id))
        except ValueError:
            identity = ""
        where = Conditions(None).that("audit_id = {id:UUID}", id=identity)
        rows = (
            await self._db.rows(select(_COLUMNS, "operator_actions", where, NEWEST_STAGE), where.parameters)
            if identity
            else []
        )
        if not rows:
            raise NotFoundError(f"There is no action {audit_id!r}.", hint="GET /v1/audit lists the actions.")
        return rows[0]

    async def undone(self, audit_ids: list[str]) -> dict[str, str]:
        """Return which of the actions were undone, with the id of the action that did it."""
        where = Conditions(None).that("undo_of IN {ids:Array(String)}", ids=audit_ids)
        columns = "undo_of, audit_id, outcome"
        rows = await self._db.rows(select(columns, "operator_actions", where, NEWEST_STAGE), where.parameters)
        return {row["undo_of"]: str(row["audit_id"]) for row in rows if row["outcome"] not in WITHOUT_EFFECT}

    async def later(self, action: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return an action that replaced what this one set, and still holds; None if there is none.

        A policy replaces a policy, and a command replaces a command. An undo doesn't count, because it brings back what was before.
        """
        where = Conditions(None).equal("subject", action["subject"])
        where.that(
            "(at, audit_id) > (fromUnixTimestamp64Micro({at:Int64}, 'UTC'), {id:UUID})",
            "action NOT IN ('undo', 'set_retention')",
            "(action = 'set_policy') = {policy:Bool}",
            at=microseconds(action["at"]),
            id=str(action["audit_id"]),
            policy=action["action"] == "set_policy",
        )
        columns = "audit_id, actor, action, reason, outcome, expires_at"
        rows = await self._db.rows(select(columns, "operator_actions", where, NEWEST_STAGE), where.parameters)
        undone = await self.undone([str(row["audit_id"]) for row in rows]) if rows else {}
        now = utc_now()
        for row in rows:
            ended = row["expires_at"] is not None and row["expires_at"] <= now
            if row["outcome"] not in WITHOUT_EFFECT and str(row["audit_id"]) not in undone and not ended:
                return row
        return None

    @route("GET", "/v1/audit", Role.READ, query("after limit subject"))
    async def listed(self, request: Request) -> Response:
        """List what operators did, newest first."""
        given, rights = Parameters.of(request), Rights.of(request)
        rights.check_unrestricted("What operators did")
        where, limit = Conditions(None).equal("subject", given.text("subject")), min(given.limit(50), 1_000)
        if (after := given.text("after")) is not None:
            at, identity = read_cursor(after)
            where.that("(at, audit_id) < (fromUnixTimestamp64Micro({at:Int64}, 'UTC'), {id:UUID})", at=at, id=identity)
        rows = await self._db.rows(
            select(_COLUMNS, "operator_actions", where, f"{NEWEST_STAGE} LIMIT {limit + 1}"), where.parameters
        )
        shown = rows[:limit]
        undone = await self.undone([str(row["audit_id"]) for row in shown]) if shown else {}
        following = cursor(shown[-1]["at"], str(shown[-1]["audit_id"])) if len(rows) > limit else None
        return json_answer({"items": [self._item(row, undone) for row in shown], "next": following})

    @staticmethod
    def _item(row: Mapping[str, Any], undone: Mapping[str, str]) -> AuditItem:
        identity = str(row["audit_id"])
        return {
            "audit_id": identity,
            "at": iso(row["at"]),
            "actor": row["actor"],
            "address": row["address"],
            "action": row["action"],
            "subject": row["subject"],
            "reason": row["reason"],
            "outcome": row["outcome"],
            "detail": row["detail"] or None,
            "before": _value(row["before"]),
            "after": _value(row["after"]),
            "expires_at": iso(row["expires_at"]),
            "undo_of": row["undo_of"] or None,
            "undone_by": undone.get(identity),
            "undoable": bool(row["undo"]) and identity not in undone and row["outcome"] not in WITHOUT_EFFECT,
        }


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _value(text: str) -> Any:
    return json.loads(text) if text else None


def _clickhouse(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
