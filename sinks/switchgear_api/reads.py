"""Handle the routes that read tools, circuits and calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from switchgear.follower.view import CircuitView
from switchgear_api.answers import NotFoundError, json_answer
from switchgear_api.console.components import Components
from switchgear_api.limits import with_limits
from switchgear_api.parameters import Parameters, query
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, Reply, route
from switchgear_http.visibility import CIRCUITS, Named, Sight
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.settings import Settings
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import CircuitsRepository, EmittersRepository, ToolMetricsRepository
from switchgear_sinks.repository.local_circuits import WITHIN as LOCAL_WITHIN
from switchgear_sinks.store import Store

OPENS_WITHIN = timedelta(hours=24)
_CIRCUITS = {
    200: Reply(
        "The circuits, or with `history` their records.",
        {"application/json": {"schema": {"anyOf": [CIRCUITS, {"type": "object", "required": ["history"]}]}}},
    )
}
_HISTORY = "The history of circuits, which all tenants share,"


class Reads(Handlers):
    """Handlers over one store. Nothing is cached.

    Args:
        store: The store.
        settings: ``late_after_s`` and ``family_pattern`` are used.
        components: What is wrong with the system.
        limited: Returns the circuits with rate limits by id, of all tools or of one.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        components: Components,
        limited: Callable[[str | None], Mapping[str, CircuitView]],
    ) -> None:
        self._store = store
        self._late_after_s = settings.late_after_s
        self._family_pattern = settings.family_pattern
        self._components = components
        self._limited = limited
        self._circuits = CircuitsRepository(store)

    @route("GET", "/v1/tools", Role.READ, query("hours tenant"))
    async def tools(self, request: Request) -> Response:
        """List the health of every tool.

        The answer is a SystemHealthReport.
        """
        given = Parameters.of(request)
        hours = given.hours(1.0) or 1.0
        rights = Rights.of(request)
        service = ToolHealthService(self._store, self._repository(rights, given), seen=_seen_in_reports(rights))
        report = rights.visible_report(await service.check_all_tools_health(hours))
        return json_answer({"hours": hours} | report.to_dict())

    @route("GET", "/v1/tools/{name:path}", Role.READ, query("hours tenant"))
    async def tool(self, request: Request) -> Response:
        """Show the health, statistics and last calls of a tool."""
        given = Parameters.of(request)
        name: str = request.path_params["name"]
        hours = given.hours(1.0) or 1.0
        now = datetime.now(UTC)
        rights = Rights.of(request)
        rights.check_tool(name)
        repository = self._repository(rights, given)
        last = await repository.get_last_calls(name)
        circuits = await self._seen(rights, self._named(rights, [name]), now, name)
        if not last["stored"] and not circuits:
            raise NotFoundError(f"No tool {name!r} has been called.", hint="`switchgear tools` lists those that have.")
        service = ToolHealthService(self._store, repository, seen=_seen_in_reports(rights))
        report = await service.check_tool_health(name, hours)
        return json_answer(
            {
                "hours": hours,
                "report": report.to_dict(),
                "stats": await repository.get_tool_stats(name, now - timedelta(hours=hours), now),
                "errors": await service.get_error_patterns(name, 5),
                "circuits": circuits,
                **(await (self._local(now, name) if rights.all_tenants else _no_local())),
                "last_success": last["last_success"],
                "last_failure": last["last_failure"],
                "last_error": last["last_error"],
                "stored_calls": last["stored"],
            }
        )

    @route("GET", "/v1/circuits", Role.READ, query("history limit tool refusing"), answers=_CIRCUITS)
    async def circuits(self, request: Request) -> Response:
        """Show the state of every circuit, by id.

        ``circuits`` are the fleet's circuits, those that refuse calls first. ``local_circuits`` are those that processes opened on their
        own evidence. ``problems`` says which part of the system does not work, so that the circuits may be old. With ``?history=1`` the
        answer has the records, newest first.
        """
        given = Parameters.of(request)
        rights, tool = Rights.of(request), given.text("tool")
        now = datetime.now(UTC)
        if given.flag("history"):
            rights.check_all_tenants(_HISTORY)
            rights.check_tool(tool)
            records = await self._circuits.history(tool, given.limit(50))
            return json_answer({"history": records, "checked_at": now})
        sight = await self._sight(rights, tool)
        circuits, local = await asyncio.gather(
            self._seen(rights, sight, now, tool, refusing=given.flag("refusing")),
            self._local(now, tool) if rights.all_tenants else _no_local(),
        )
        local["local_circuits"] = rights.visible(local["local_circuits"])
        problems = self._components.problems(named=rights.unrestricted)
        by_id = {each["circuit_id"]: each for each in circuits}
        return json_answer({"circuits": by_id, "problems": problems, "checked_at": now} | local)

    @route("GET", "/v1/circuits/{circuit_id:path}", Role.READ, query("history limit"))
    async def circuit(self, request: Request) -> Response:
        """Show a circuit."""
        given = Parameters.of(request)
        circuit_id: str = request.path_params["circuit_id"]
        rights, name = Rights.of(request), read_circuit_id(circuit_id).name
        _check_circuit(request, circuit_id)
        if given.flag("history"):
            rights.check_all_tenants(_HISTORY)
            return await self._history(circuit_id, given)
        now = datetime.now(UTC)
        named = Named(frozenset([name]), frozenset([name]))  # as the id says: the name of a tool, or of a family
        circuits = await self._seen(rights, rights.sight(named, self._family_pattern), now, name)
        found = [circuit for circuit in circuits if circuit["circuit_id"] == circuit_id]
        if not found:
            raise await self._no_circuit(circuit_id, rights)
        return json_answer({"circuit": found[0], "checked_at": now})

    @route("GET", "/v1/circuits/{circuit_id:path}/history", Role.READ, query("limit"))
    async def circuit_history(self, request: Request) -> Response:
        """List the records of a circuit, newest first."""
        circuit_id: str = request.path_params["circuit_id"]
        Rights.of(request).check_all_tenants(_HISTORY)
        _check_circuit(request, circuit_id)
        return await self._history(circuit_id, Parameters.of(request))

    @route("GET", "/v1/slow", Role.READ, query("threshold_ms limit tool hours tenant"))
    async def slow(self, request: Request) -> Response:
        """List the slowest calls."""
        given = Parameters.of(request)
        threshold_ms = given.number("threshold_ms", 5000, 0, 1e12)
        hours = given.hours(None)
        rights = Rights.of(request)
        rights.check_tool(given.text("tool"))
        since = None if hours is None else datetime.now(UTC) - timedelta(hours=hours)
        calls = await self._repository(rights, given).get_slow_executions(
            threshold_ms, given.limit(20), since=since, tool_name=given.text("tool")
        )
        return json_answer({"threshold_ms": threshold_ms, "executions": [call.to_dict() for call in calls]})

    @route("GET", "/v1/stored", Role.READ)
    async def stored(self, request: Request) -> Response:
        """Count the stored events."""
        Parameters.of(request)
        Rights.of(request).check_unrestricted("The number of all stored events")
        found = await self._store.query("SELECT count() FROM tool_metrics")
        return json_answer({"events": found.result_rows[0][0], **await _newest(ToolMetricsRepository(self._store))})

    @route("GET", "/v1/emitters", Role.READ, query("hours tenant"))
    async def emitters(self, request: Request) -> Response:
        """List the processes whose clock is wrong."""
        given = Parameters.of(request)
        rights = Rights.of(request)
        rights.check_unrestricted_tools("The clocks of processes")
        hours, now = given.hours(24.0) or 24.0, datetime.now(UTC)
        tenant = rights.tenant(given.text("tenant"))
        repository = EmittersRepository(self._store, self._late_after_s, tenant=tenant)
        found = await repository.wrong_clocks(now - timedelta(hours=hours))
        return json_answer({"hours": hours, "emitters": found, "checked_at": now})

    @route("GET", "/v1/errors", Role.READ, query("tool limit tenant"))
    async def errors(self, request: Request) -> Response:
        """List the newest errors, and say how old the newest stored event is."""
        given = Parameters.of(request)
        rights = Rights.of(request)
        rights.check_tool(given.text("tool"))
        repository = self._repository(rights, given)
        calls = await repository.get_recent_errors(given.text("tool"), given.limit(10))
        listed = {"tool": given.text("tool"), "errors": [call.to_dict() for call in calls]}
        return json_answer({**listed, **await _newest(repository)})

    async def _sight(self, rights: Rights, tool: str | None) -> Sight:
        """Return which circuits the client sees. A tenant has named the tools that it has called, and the one that it asks about."""
        if rights.all_tenants or tool is not None:
            return self._named(rights, [] if tool is None else [tool])
        called = ToolMetricsRepository(self._store, tenant=rights.tenant(None)).get_known_tool_names
        return self._named(rights, await called())

    def _named(self, rights: Rights, tools: Iterable[str]) -> Sight:
        return rights.sight(Named.of(tools, self._family_pattern), self._family_pattern)

    async def _seen(
        self, rights: Rights, sight: Sight, now: datetime, tool: str | None, *, refusing: bool = False
    ) -> list[Mapping[str, Any]]:
        """Return what the client sees of the circuits."""
        stored = await self._circuits.current(now - OPENS_WITHIN, tool, refusing=refusing)
        circuits: list[Mapping[str, Any]] = [*stored]
        if rights.all_tenants:
            circuits = with_limits(stored, self._limited(tool), only_stored=refusing)
        if rights.unrestricted:
            return circuits
        return [sight.seen(each) for each in circuits if _sees(sight, each)]

    async def _local(self, now: datetime, tool_name: str | None) -> dict[str, Any]:
        found = await self._circuits.local(now - LOCAL_WITHIN, tool_name)
        return {"local_circuits": found, "local_within_s": LOCAL_WITHIN.total_seconds()}

    async def _history(self, circuit_id: str, given: Parameters) -> Response:
        records: list[dict[str, Any]] = await self._circuits.history(circuit_id, given.limit(50))
        if not records:
            raise await self._no_circuit(circuit_id, None)
        return json_answer({"history": records, "checked_at": datetime.now(UTC)})

    async def _no_circuit(self, circuit_id: str, rights: Rights | None) -> NotFoundError:
        tool_name = read_circuit_id(circuit_id).name
        shared = rights is None or rights.all_tenants
        if shared and await self._circuits.local(datetime.now(UTC) - LOCAL_WITHIN, tool_name):
            return NotFoundError(
                f"The fleet has no circuit {circuit_id!r}. Processes opened their own, which have no history.",
                hint=f"`switchgear tool {tool_name}` shows them.",
            )
        return NotFoundError(
            f"The circuit {circuit_id!r} does not exist.", hint="`switchgear circuits` lists all circuits."
        )

    def _repository(self, rights: Rights, given: Parameters) -> ToolMetricsRepository:
        return ToolMetricsRepository(self._store, tenant=rights.tenant(given.text("tenant")))


async def _newest(repository: ToolMetricsRepository) -> dict[str, Any]:
    """Return when the newest stored event came, and its age. What is newer waits to be stored."""
    at = await repository.get_newest_arrival()
    age_s = None if at is None else max(0.0, round((datetime.now(UTC) - at).total_seconds(), 1))
    return {"newest_event_at": at, "newest_event_age_s": age_s}


def _check_circuit(request: Request, circuit_id: str) -> None:
    Rights.of(request).check_tool(read_circuit_id(circuit_id).name)


def _sees(sight: Sight, record: Mapping[str, Any]) -> bool:
    return sight.sees_circuit(record["tool_name"], record["scope"], read_circuit_id(record["circuit_id"]).whose)


def _seen_in_reports(rights: Rights) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what a report says of a circuit: for a tenant no cause, because its words have counts and an operator's reason."""
    if rights.all_tenants:
        return lambda circuit: circuit
    sight = rights.sight()
    return lambda circuit: {name: value for name, value in sight.seen(circuit).items() if name != "cause"}


async def _no_local() -> dict[str, Any]:
    return {"local_circuits": [], "local_within_s": LOCAL_WITHIN.total_seconds()}
