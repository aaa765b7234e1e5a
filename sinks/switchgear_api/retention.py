"""Handle ``/v1/retention``, which shows and changes how long rows are kept. No other route changes anything.

A change needs a token with the role ``admin``, because a rule of one day deletes data. Without tokens, changes are accepted from the
API's own machine only. A web page in a browser of that machine can't change it. A browser sends ``PUT`` and ``DELETE`` to another
site only with its consent (CORS), which this API never gives, and the ``Host`` header must name this machine.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import ForbiddenError, json_answer
from switchgear_api.console.audit import Action, Audit
from switchgear_api.parameters import Parameters, json_body, query
from switchgear_api.rights import Rights
from switchgear_http.hosts import host_name, is_loopback
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.errors import StoreUnavailableError
from switchgear_schemas.settings import Settings
from switchgear_sinks.clickhouse_errors import NOT_ALLOWED, clickhouse_code
from switchgear_sinks.migrations import Layout, RetentionRules, change_retention, read_rules
from switchgear_sinks.store import Database, Store

_PATH: Final = "/v1/retention"
CHANGE_LIMIT_S: Final = 100.0
_SAMPLE: Final = 'Send {"days": 30, "tenant": null, "new_rows_only": false} as application/json; only days is required.'


class RetentionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``PUT``. A ``tenant`` of null means all tenants without a rule."""

    days: int
    tenant: str | None = None
    new_rows_only: bool = False


class RetentionRoutes(Handlers):
    """The handlers. Every answer has the rules in force, and the location of the store as ``store``."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._layout = Layout.of(settings)
        self._audit = Audit(Database(store))
        self._turn = asyncio.Lock()

    @route("GET", _PATH, Role.READ)
    async def show(self, request: Request) -> Response:
        """Show how long rows are kept."""
        _check_rights(request)
        Parameters.of(request)
        return self._answer(await read_rules(self._store, self._layout.retention_days))

    @route("PUT", _PATH, Role.ADMIN, body=RetentionBody)
    async def put(self, request: Request) -> Response:
        """Change how long rows are kept."""
        _check_rights(request)
        body = await json_body(request, RetentionBody, _SAMPLE)
        return self._answer(await self._change(request, body.tenant, body.days, new_rows_only=body.new_rows_only))

    @route("DELETE", _PATH, Role.ADMIN, query("tenant new_rows_only"))
    async def delete(self, request: Request) -> Response:
        """Remove a rule of the retention."""
        _check_rights(request)
        given = Parameters.of(request)
        tenant = request.query_params.get("tenant")  # "" is the tenant of rows without one
        return self._answer(await self._change(request, tenant, None, new_rows_only=given.flag("new_rows_only")))

    async def _change(
        self, request: Request, tenant: str | None, days: int | None, *, new_rows_only: bool
    ) -> RetentionRules:
        subject = "retention" if tenant is None else f"retention of {tenant}"
        action = Action.of(request, "set_retention", subject, "")
        try:
            async with asyncio.timeout(CHANGE_LIMIT_S), self._turn:
                await self._audit.write(action)  # first, so that no row is deleted without a record
                async with self._audit.noting_failure(action):
                    # don't wait: this process continues while ClickHouse changes the stored rows
                    rules = await change_retention(
                        self._store, self._layout, tenant, days, new_rows_only=new_rows_only, wait=False
                    )
                await self._audit.write(action.ended("applied", after=rules.to_dict()))
                return rules
        except TimeoutError:
            raise StoreUnavailableError(
                f"ClickHouse did not finish the change within {CHANGE_LIMIT_S:.0f} s.",
                hint="`switchgear retention show` shows the rules; try again, or start a sink, which applies them.",
            ) from None
        except ClickHouseError as error:
            if clickhouse_code(error) in NOT_ALLOWED:
                raise ForbiddenError(
                    f"The ClickHouse user {self._store.location.username!r} of this API may not change tables.",
                    hint="Name a user who may: `switchgear retention … --clickhouse http://user:password@host:8123/database`.",
                ) from None
            raise

    def _answer(self, rules: RetentionRules) -> Response:
        return json_answer(rules.to_dict() | {"store": str(self._store.location)})


def _check_rights(request: Request) -> None:
    rights = Rights.of(request)
    rights.check_unrestricted("The rules, which name every tenant,")
    if rights.local and request.method in {"PUT", "DELETE"}:
        _only_this_machine(request)


def _only_this_machine(request: Request) -> None:
    """Refuse a request from another machine, or with a host name that isn't this machine's (DNS rebinding).

    Raises:
        ForbiddenError: As above.
    """
    client = request.client
    name = host_name(request.headers.get("host", ""))
    if client is None or name is None or not is_loopback(client.host) or not is_loopback(name):
        raise ForbiddenError(
            "The API takes changes from its own machine only, at localhost.",
            hint="Run the command there; or, with a ClickHouse server, name that server: --clickhouse http://….",
        )
