"""The names that an operator can command."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from switchgear.policies import PolicyError
from switchgear_api.answers import json_answer
from switchgear_api.console.fleet import ConsoleCircuits
from switchgear_api.console.policies import EffectivePolicies
from switchgear_api.operate.known_state import KnownState, commands_wait
from switchgear_api.parameters import Parameters
from switchgear_api.rights import Rights
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_sinks.repository.queries import Conditions, select
from switchgear_sinks.store import Database

_MOST_TOOLS: Final = 50_000


class Known(Handlers):
    """The handler of ``GET /v1/console/known``.

    Args:
        db: The stored calls.
        fleet: The circuits. They count while the workers' table can't be read.
        effective: The workers' table and the policy file.
        settings: The brokers and topics.
    """

    def __init__(self, db: Database, fleet: ConsoleCircuits, effective: EffectivePolicies, settings: Settings) -> None:
        self._db = db
        self._fleet = fleet
        self._effective = effective
        self._settings = settings

    @route("GET", "/v1/console/known", Role.READ)
    async def __call__(self, request: Request) -> Response:
        """List the circuits and names that an operator can command."""
        Parameters.of(request)
        rights, principal = Rights.of(request), principal_of(request.scope)
        rights.check_all_tenants("Circuits, which all tenants share,")
        known, stored, (planned, remarks) = await asyncio.gather(
            self._effective.known(fresh=True), self._stored(), asyncio.to_thread(self._planned)
        )
        circuits = await self._circuits(known)
        tools = {*stored, *planned, *(each["tool"] for each in circuits if each["scope"] == "tool")}
        policies = [] if known is None else known.policies_set()
        if principal.tools:
            circuits = [each for each in circuits if principal.may(Role.READ, tool=each["tool"])]
            tools = {name for name in tools if principal.may(Role.READ, tool=name)}
            policies = [name for name in policies if principal.may(Role.READ, tool=read_circuit_id(name).name)]
        return json_answer(
            {
                "circuits": circuits,
                "tools": sorted(tools),
                "policies_set": policies,
                "commands_wait": await self._commands_wait(),
                "remarks": remarks,
            }
        )

    async def _circuits(self, known: KnownState | None) -> list[dict[str, Any]]:
        rows = (await self._fleet.all() if known is None else known.circuits).values()
        return [
            {"circuit_id": row.circuit_id, "tool": row.tool_name, "scope": row.scope, "state": row.state}
            for row in rows
        ]

    async def _stored(self) -> list[str]:
        where = Conditions(None)
        rows = await self._db.rows(
            select("DISTINCT tool_name", "tool_counts_1m", where, f"LIMIT {_MOST_TOOLS}"), where.parameters
        )
        return [row["tool_name"] for row in rows]

    def _planned(self) -> tuple[tuple[str, ...], list[str]]:
        """Return the tools that the policy file names, and why the list may be incomplete."""
        try:
            return self._effective.file().tool_names, []
        except PolicyError as error:
            return (), [f"The policy file was not looked at: {error.message}"]

    async def _commands_wait(self) -> bool:
        """Return whether a command may set values that no worker has read yet. True too if Kafka does not say."""
        try:
            return await commands_wait(self._settings)
        except SwitchgearError:
            return True
